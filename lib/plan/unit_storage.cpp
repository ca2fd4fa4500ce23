#include "plan/unit_storage.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::plan {

const Placement& placement_of(const std::vector<Placement>& placements, const std::string& fqn) {
  const auto found =
      std::find_if(placements.begin(), placements.end(), [&](const Placement& p) { return p.parameter.fqn == fqn; });
  base::expect(found != placements.end(), "no placement for {}", fqn);
  return *found;
}

bool has_several_ranks(const layout::Layout& layout, const std::string& group) {
  return !group.empty() && layout.group_size(group) > 1;
}

std::size_t home_unit(const std::vector<Unit>& units, const std::string& fqn) {
  const auto home = std::find_if(units.begin(), units.end(), [&](const Unit& unit) {
    return std::any_of(unit.uses.begin(), unit.uses.end(), [&](const Use& use) { return use.fqn == fqn; });
  });
  base::expect(home != units.end(), "no unit uses {}", fqn);
  return static_cast<std::size_t>(home - units.begin());
}

UnitStorage unit_storage(const Unit& unit, const std::vector<Placement>& placements, const layout::Layout& layout,
                         std::int64_t rank, ElementSizes sizes, SlotPolicy policy) {
  constexpr std::int64_t alignment = 64;
  const auto aligned = [](std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  UnitStorage storage;
  for (const auto& use : unit.uses) {
    const auto& placement = placement_of(placements, use.fqn);
    UseStorage s{.box = use_box(placement, use.kind, layout, rank)};
    const bool shard_is_all =
        policy == SlotPolicy::bind_where_possible && !has_several_ranks(layout, gather_group(placement, use.kind));
    s.value_is_bound = shard_is_all && sizes.same_type;
    s.gradient_is_bound = shard_is_all;
    if (!s.value_is_bound) {
      s.value_offset = storage.value_bytes;
      storage.value_bytes += aligned(s.box.elements() * sizes.compute_bytes);
    }
    if (!s.gradient_is_bound) {
      s.gradient_offset = storage.gradient_bytes;
      storage.gradient_bytes += aligned(s.box.elements() * sizes.master_bytes);
    }
    storage.uses.push_back(std::move(s));
  }
  return storage;
}

}  // namespace tessera::plan

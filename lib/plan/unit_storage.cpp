#include "plan/unit_storage.h"

#include "base/error.h"

namespace tessera::plan {

PlacementIndex::PlacementIndex(const std::vector<Placement>& placements) {
  by_fqn_.reserve(placements.size());
  for (const Placement& placement : placements) by_fqn_.emplace(placement.parameter.fqn, &placement);
}

const Placement& PlacementIndex::of(std::string_view fqn) const {
  const auto found = by_fqn_.find(fqn);
  base::expect(found != by_fqn_.end(), "no placement for {}", fqn);
  return *found->second;
}

std::unordered_map<std::string, std::size_t> home_units(const std::vector<Unit>& units) {
  std::unordered_map<std::string, std::size_t> homes;
  for (std::size_t u = 0; u < units.size(); ++u)
    for (const Use& use : units[u].uses) homes.try_emplace(use.fqn, u);
  return homes;
}

UnitStorage unit_storage(const Unit& unit, const PlacementIndex& placements, const layout::Layout& layout,
                         std::int64_t rank, ElementSizes sizes, BindPolicy policy) {
  constexpr std::int64_t alignment = 64;
  const auto aligned = [](std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  UnitStorage storage;
  for (const auto& use : unit.uses) {
    const auto& placement = placements.of(use.fqn);
    UseStorage s{.box = use_box(placement, use.kind, layout, rank)};
    const bool shard_is_all =
        policy == BindPolicy::bind_where_possible && !layout.has_several_ranks(gather_group(placement, use.kind));
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

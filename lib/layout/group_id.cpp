#include "layout/group_id.h"

#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tessera::layout {
namespace {

constexpr std::array<std::string_view, 6> dense_names{"pp", "dp_replicate", "dp_shard", "ulysses", "cp", "tp"};
constexpr std::array<std::string_view, 4> extra_suffixes{"", "_replicate", "_fsdp", "_tp"};

constexpr unsigned bits_of(std::initializer_list<DenseAxis> axes) {
  unsigned bits = 0;
  for (const auto axis : axes) bits |= 1U << static_cast<unsigned>(axis);
  return bits;
}

constexpr unsigned fsdp_bits = bits_of({DenseAxis::dp_shard, DenseAxis::ulysses, DenseAxis::cp});
constexpr unsigned data_bits = bits_of({DenseAxis::dp_replicate, DenseAxis::dp_shard});
constexpr unsigned world_bits = (1U << dense_names.size()) - 1;

void add(std::string& names, std::string_view name) {
  if (!names.empty()) names += '+';
  names += name;
}

}  // namespace

GroupId GroupId::of(DenseAxis axis) { return {{}, bits_of({axis})}; }
GroupId GroupId::of(std::string extra, ExtraAxis axis) { return {std::move(extra), 1U << static_cast<unsigned>(axis)}; }
GroupId GroupId::world() { return {{}, world_bits}; }
GroupId GroupId::fsdp() { return {{}, fsdp_bits}; }
GroupId GroupId::data() { return {{}, data_bits}; }
GroupId GroupId::stage() { return {{}, world_bits & ~bits_of({DenseAxis::pp})}; }
GroupId GroupId::sharing_sequences() { return {{}, world_bits & ~data_bits}; }

GroupId GroupId::join(const GroupId& other) const {
  if (is_alone()) return other;
  if (other.is_alone()) return *this;
  base::expect(extra_ == other.extra_, "the groups {} and {} are of different grids", name(), other.name());
  return {extra_, static_cast<unsigned>(axes_ | other.axes_)};
}

std::string GroupId::name() const {
  std::string names;
  if (!extra_.empty()) {
    for (std::size_t axis = 0; axis < extra_suffixes.size(); ++axis)
      if (has_bit(static_cast<int>(axis))) add(names, layout::name(extra_, static_cast<ExtraAxis>(axis)));
    return names;
  }
  if (axes_ == world_bits) return "world";
  if (axes_ == data_bits) return "data";
  const bool has_fsdp = (axes_ & fsdp_bits) == fsdp_bits;
  for (std::size_t axis = 0; axis < dense_names.size(); ++axis) {
    if (!has_bit(static_cast<int>(axis))) continue;
    const bool is_of_fsdp = (fsdp_bits >> axis & 1) != 0;
    if (!has_fsdp || !is_of_fsdp)
      add(names, dense_names[axis]);
    else if (axis == static_cast<std::size_t>(DenseAxis::dp_shard))
      add(names, "fsdp");
  }
  return names;
}

std::string name(DenseAxis axis) { return std::string(dense_names[static_cast<std::size_t>(axis)]); }

std::string name(const std::string& extra, ExtraAxis axis) {
  return extra + std::string(extra_suffixes[static_cast<std::size_t>(axis)]);
}

}  // namespace tessera::layout

// Finds groups by the names that they have in settings, logs and lists of ranks.
#pragma once

#include <stdexcept>
#include <string>

#include "layout/layout.h"

namespace tessera::test {

// Returns the group that `names` stand for, joined by '+': "world", "fsdp", "data", a dense axis, or "x", "x_fsdp",
// "x_replicate", "x_tp" of an extra parallel x of `layout`. "" is each rank alone.
inline layout::GroupId group_named(const layout::Layout& layout, const std::string& names) {
  using layout::GroupId;
  if (names.empty()) return {};
  if (const auto plus = names.find('+'); plus != std::string::npos)
    return group_named(layout, names.substr(0, plus)).join(group_named(layout, names.substr(plus + 1)));
  for (const auto& id : {GroupId::world(), GroupId::fsdp(), GroupId::data()})
    if (id.name() == names) return id;
  for (int axis = 0; axis <= static_cast<int>(layout::DenseAxis::tp); ++axis)
    if (name(static_cast<layout::DenseAxis>(axis)) == names) return GroupId::of(static_cast<layout::DenseAxis>(axis));
  for (const auto& extra : layout.sizes().extra)
    for (int axis = 0; axis <= static_cast<int>(layout::ExtraAxis::tp); ++axis)
      if (name(extra.name, static_cast<layout::ExtraAxis>(axis)) == names)
        return GroupId::of(extra.name, static_cast<layout::ExtraAxis>(axis));
  throw std::logic_error("no group " + names);
}

}  // namespace tessera::test

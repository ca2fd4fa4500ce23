#include "layout/layout.h"

#include <algorithm>
#include <utility>

namespace tessera::layout {

Grid::Grid(std::vector<Axis> axes) : axes_(std::move(axes)) {
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    base::expect(axes_[a].size >= 1, "axis {} of size {}", axes_[a].name, axes_[a].size);
    for (std::size_t b = 0; b < a; ++b)
      base::expect(axes_[a].name != axes_[b].name, "two axes named {}", axes_[a].name);
  }
}

bool Grid::has_axis(std::string_view name) const {
  return std::any_of(axes_.begin(), axes_.end(), [&](const Axis& axis) { return axis.name == name; });
}

std::int64_t Grid::size() const {
  std::int64_t product = 1;
  for (const Axis& axis : axes_) product *= axis.size;
  return product;
}

// Returns the axes in grid order, whatever the order of `names`.
std::vector<Grid::Stride> Grid::strides_of(const std::vector<std::string>& names) const {
  for (const std::string& name : names) base::expect(has_axis(name), "no axis {} in this grid", name);
  std::vector<Stride> found;
  std::int64_t stride = size();
  for (const Axis& axis : axes_) {
    stride /= axis.size;
    if (std::find(names.begin(), names.end(), axis.name) != names.end()) found.push_back({axis.size, stride});
  }
  return found;
}

std::int64_t Grid::coordinate(std::int64_t rank, const std::string& name) const { return position(rank, {name}); }

std::int64_t Grid::group_size(const std::vector<std::string>& names) const {
  std::int64_t product = 1;
  for (const Stride& axis : strides_of(names)) product *= axis.size;
  return product;
}

std::int64_t Grid::position_of(std::int64_t rank, const std::vector<Stride>& spanned) {
  std::int64_t position = 0;
  for (const Stride& axis : spanned) position = position * axis.size + rank / axis.stride % axis.size;
  return position;
}

std::int64_t Grid::position(std::int64_t rank, const std::vector<std::string>& names) const {
  base::expect(rank >= 0 && rank < size(), "rank {} of {}", rank, size());
  return position_of(rank, strides_of(names));
}

Group Grid::group(std::int64_t rank, const std::vector<std::string>& names) const {
  base::expect(rank >= 0 && rank < size(), "rank {} of {}", rank, size());
  return group_of(rank, strides_of(names));
}

Group Grid::group_of(std::int64_t rank, const std::vector<Stride>& spanned) {
  std::int64_t first = rank;
  for (const Stride& axis : spanned) first -= rank / axis.stride % axis.size * axis.stride;
  Group members{first};
  for (const Stride& axis : spanned) {
    Group wider;
    wider.reserve(members.size() * static_cast<std::size_t>(axis.size));
    for (const std::int64_t member : members)
      for (std::int64_t i = 0; i < axis.size; ++i) wider.push_back(member + i * axis.stride);
    members = std::move(wider);
  }
  return members;
}

std::vector<Group> Grid::groups(const std::vector<std::string>& names, std::size_t most) const {
  const std::vector<Stride> spanned = strides_of(names);
  const std::int64_t ranks = size();
  std::vector<Group> found;
  for (std::int64_t rank = 0; rank < ranks && found.size() < most; ++rank)
    if (position_of(rank, spanned) == 0) found.push_back(group_of(rank, spanned));
  return found;
}

}  // namespace tessera::layout

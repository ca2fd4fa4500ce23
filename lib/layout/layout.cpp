#include "layout/layout.h"

#include "base/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tessera::layout {
namespace {

Grid dense_grid_of(const LayoutSizes& sizes) {
  return Grid({{"pp", sizes.pp},
               {"dp_replicate", sizes.dp_replicate},
               {"dp_shard", sizes.dp_shard},
               {"ulysses", sizes.ulysses},
               {"cp", sizes.cp},
               {"tp", sizes.tp}});
}

Grid extra_grid_of(const LayoutSizes& sizes, const ExtraParallel& extra) {
  const std::int64_t ranks = divisible_ranks(sizes, extra);
  base::expect(extra.size >= 1 && ranks % extra.size == 0, "{} = {} does not divide {} ranks", extra.name, extra.size,
               ranks);
  const Axis group{extra.name, extra.size};
  const Axis fsdp{extra.name + "_fsdp", ranks / extra.size};
  std::vector<Axis> axes{{"pp", sizes.pp}, {extra.name + "_replicate", sizes.dp_replicate}, fsdp, group};
  if (extra.placement == GridPlacement::outer) std::swap(axes[2], axes[3]);
  if (!extra.folds_tp) axes.push_back({extra.name + "_tp", sizes.tp});
  return Grid(std::move(axes));
}

std::vector<std::string> parts_of(const std::string& joined) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t plus = joined.find('+'); plus != std::string::npos; plus = joined.find('+', begin)) {
    parts.push_back(joined.substr(begin, plus - begin));
    begin = plus + 1;
  }
  parts.push_back(joined.substr(begin));
  return parts;
}

// Returns the axes of the dense grid that a name stands for.
std::vector<std::string> dense_axes_of(const std::string& part) {
  if (part == "world") return {"pp", "dp_replicate", "dp_shard", "ulysses", "cp", "tp"};
  if (part == "fsdp") return {"dp_shard", "ulysses", "cp"};
  if (part == "data") return {"dp_replicate", "dp_shard"};
  return {part};
}

bool has_all_axes(const Grid& grid, const std::vector<std::string>& axes) {
  return std::all_of(axes.begin(), axes.end(), [&](const std::string& axis) { return grid.has_axis(axis); });
}

// Returns "{0,2,4,6}", or for more than 8 members "{0,1,2,...,1023}".
std::string members_text(const Group& group) {
  constexpr std::size_t most = 8, first = 3;
  if (group.size() <= most) return fmt::format("{{{}}}", fmt::join(group, ","));
  const Group begin(group.begin(), group.begin() + first);
  return fmt::format("{{{},...,{}}}", fmt::join(begin, ","), group.back());
}

// Returns "{0,1} {2,3}"; if not all groups fit into a line, the first ones and the number of groups.
std::string groups_text(const Layout& layout, const std::string& name) {
  constexpr std::size_t line = 72, most = 1 + line / 4;  // the shortest group is "{0} "
  std::string text;
  for (const Group& group : layout.groups(name, most)) {
    const std::string members = members_text(group);
    if (!text.empty() && text.size() + members.size() > line)
      return fmt::format("{} ... ({} groups)", text, layout.world() / layout.group_size(name));
    text += (text.empty() ? "" : " ") + members;
  }
  return text;
}

}  // namespace

std::int64_t divisible_ranks(const LayoutSizes& sizes, const ExtraParallel& extra) {
  return sizes.dp_shard * sizes.ulysses * sizes.cp * (extra.folds_tp ? sizes.tp : 1);
}

Layout::Layout(LayoutSizes sizes) : sizes_(std::move(sizes)), dense_(dense_grid_of(sizes_)) {
  for (const ExtraParallel& extra : sizes_.extra) {
    base::expect(!has_extra(extra.name), "two extra parallels named {}", extra.name);
    extra_.push_back(extra_grid_of(sizes_, extra));
  }
}

bool Layout::has_extra(const std::string& name) const {
  return std::any_of(extra_.begin(), extra_.end(), [&](const Grid& grid) { return grid.has_axis(name + "_fsdp"); });
}

const Grid& Layout::extra_grid(const std::string& name) const {
  const auto found =
      std::find_if(extra_.begin(), extra_.end(), [&](const Grid& grid) { return grid.has_axis(name + "_fsdp"); });
  base::expect(found != extra_.end(), "no extra parallel {} in this layout", name);
  return *found;
}

std::vector<std::string> Layout::group_names() const {
  std::vector<std::string> names{"world", "fsdp", "data", "dp_replicate+fsdp"};
  for (const Axis& axis : dense_.axes()) names.push_back(axis.name);
  for (const ExtraParallel& extra : sizes_.extra) {
    const std::string& x = extra.name;
    names.insert(names.end(),
                 {x, x + "_fsdp", x + "_replicate", x + "+" + x + "_fsdp", x + "_replicate+" + x + "_fsdp"});
  }
  return names;
}

Layout::Span Layout::span_of(const std::string& name) const {
  const std::vector<std::string> parts = parts_of(name);
  std::vector<std::string> dense;
  for (const std::string& part : parts)
    for (std::string& axis : dense_axes_of(part)) dense.push_back(std::move(axis));
  if (has_all_axes(dense_, dense)) return {&dense_, std::move(dense)};
  for (const Grid& grid : extra_)
    if (has_all_axes(grid, parts)) return {&grid, parts};
  base::expect(false, "no group {} in this layout", name);
  return {};
}

Group Layout::group(std::int64_t rank, const std::string& name) const {
  const Span span = span_of(name);
  return span.grid->group(rank, span.axes);
}

std::vector<Group> Layout::groups(const std::string& name, std::size_t most) const {
  const Span span = span_of(name);
  return span.grid->groups(span.axes, most);
}

std::int64_t Layout::group_size(const std::string& name) const {
  const Span span = span_of(name);
  return span.grid->group_size(span.axes);
}

std::int64_t Layout::position(std::int64_t rank, const std::string& name) const {
  const Span span = span_of(name);
  return span.grid->position(rank, span.axes);
}

std::string describe_groups(const Layout& layout, std::int64_t rank) {
  base::Table table({{"group"}, {"size", base::Align::right}, {"ranks"}, {fmt::format("of rank {}", rank)}});
  for (const std::string& name : layout.group_names()) {
    const std::int64_t size = layout.group_size(name);
    const bool asked_for = name != "pp" && name != "ulysses" && name != "cp" && name != "tp";
    if (size == 1 && !asked_for) continue;
    table.add_row({name, std::to_string(size), size == 1 ? "each rank alone" : groups_text(layout, name),
                   members_text(layout.group(rank, name))});
  }
  return table.str();
}

}  // namespace tessera::layout

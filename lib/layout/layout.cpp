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

// Returns "{0,2,4,6}", or for more than 8 members "{0,1,2,...,1023}".
std::string members_text(const Group& group) {
  constexpr std::size_t most = 8, first = 3;
  if (group.size() <= most) return fmt::format("{{{}}}", fmt::join(group, ","));
  const Group begin(group.begin(), group.begin() + first);
  return fmt::format("{{{},...,{}}}", fmt::join(begin, ","), group.back());
}

// Returns "{0,1} {2,3}"; if not all groups fit into a line, the first ones and the number of groups.
std::string groups_text(const Layout& layout, const GroupId& id) {
  constexpr std::size_t line = 72, most = 1 + line / 4;  // the shortest group is "{0} "
  std::string text;
  for (const Group& group : layout.groups(id, most)) {
    const std::string members = members_text(group);
    if (!text.empty() && text.size() + members.size() > line)
      return fmt::format("{} ... ({} groups)", text, layout.world() / layout.group_size(id));
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

std::vector<GroupId> Layout::group_ids() const {
  std::vector<GroupId> ids{GroupId::world(), GroupId::fsdp(), GroupId::data(),
                           GroupId::of(DenseAxis::dp_replicate).join(GroupId::fsdp())};
  for (std::size_t axis = 0; axis < dense_.axes().size(); ++axis)
    ids.push_back(GroupId::of(static_cast<DenseAxis>(axis)));
  for (const ExtraParallel& extra : sizes_.extra) {
    const auto owners = GroupId::of(extra.name, ExtraAxis::owners), fsdp = GroupId::of(extra.name, ExtraAxis::fsdp),
               replicate = GroupId::of(extra.name, ExtraAxis::replicate);
    ids.insert(ids.end(), {owners, fsdp, replicate, owners.join(fsdp), replicate.join(fsdp)});
  }
  if (sizes_.pp > 1) ids.push_back(GroupId::stage());
  return ids;
}

Layout::Span Layout::span_of(const GroupId& id) const {
  if (id.extra().empty()) {
    Span span{&dense_, {}};
    for (std::size_t axis = 0; axis < dense_.axes().size(); ++axis)
      if (id.has(static_cast<DenseAxis>(axis))) span.axes.push_back(dense_.axes()[axis].name);
    return span;
  }
  Span span{&extra_grid(id.extra()), {}};
  for (const auto axis : {ExtraAxis::owners, ExtraAxis::replicate, ExtraAxis::fsdp, ExtraAxis::tp})
    if (id.has(axis)) span.axes.push_back(name(id.extra(), axis));
  return span;
}

Group Layout::group(std::int64_t rank, const GroupId& id) const {
  const Span span = span_of(id);
  return span.grid->group(rank, span.axes);
}

std::vector<Group> Layout::groups(const GroupId& id, std::size_t most) const {
  const Span span = span_of(id);
  return span.grid->groups(span.axes, most);
}

std::int64_t Layout::group_size(const GroupId& id) const {
  const Span span = span_of(id);
  return span.grid->group_size(span.axes);
}

std::int64_t Layout::position(std::int64_t rank, const GroupId& id) const {
  const Span span = span_of(id);
  return span.grid->position(rank, span.axes);
}

bool counts_sequences(const Layout& layout, std::int64_t rank) {
  return layout.position(rank, GroupId::sharing_sequences()) == 0;
}

std::string describe_groups(const Layout& layout, std::int64_t rank) {
  base::Table table({{"group"}, {"size", base::Align::right}, {"ranks"}, {fmt::format("of rank {}", rank)}});
  const auto refused_today = {DenseAxis::pp, DenseAxis::ulysses, DenseAxis::cp, DenseAxis::tp};
  for (const auto& id : layout.group_ids()) {
    const std::int64_t size = layout.group_size(id);
    const bool asked_for =
        std::ranges::find(refused_today, id, [](DenseAxis axis) { return GroupId::of(axis); }) == refused_today.end();
    if (size == 1 && !asked_for) continue;
    table.add_row({id.name(), std::to_string(size), size == 1 ? "each rank alone" : groups_text(layout, id),
                   members_text(layout.group(rank, id))});
  }
  return table.str();
}

}  // namespace tessera::layout

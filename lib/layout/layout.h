// The arrangement of the ranks: the dense axes, one grid per extra parallel, and every group as a list of ranks.
//
// The dense axes are, slowest to fastest: pp, dp_replicate, dp_shard, ulysses, cp, tp. An extra parallel `x` has its
// own grid over the ranks of one stage, one replica and one tensor-parallel lane: (x_replicate, x_fsdp, x) if
// innermost, else (x_replicate, x, x_fsdp), with x_fsdp = dp_shard * ulysses * cp / x and x_replicate = dp_replicate.
// This is pure arithmetic: any single process can compute a layout of a thousand ranks.
#pragma once

#include "base/error.h"
#include "config/settings.h"
#include "layout/group_id.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::layout {

// The ranks of one group, in group order.
using Group = std::vector<std::int64_t>;

constexpr std::size_t all_groups = std::numeric_limits<std::size_t>::max();

struct Axis {
  std::string name;
  std::int64_t size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

// Arranges consecutive ranks along named axes, slowest first.
class Grid {
 public:
  // Preconditions: names differ, sizes >= 1.
  explicit Grid(std::vector<Axis> axes);
  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  [[nodiscard]] bool has_axis(std::string_view name) const;
  [[nodiscard]] std::int64_t size() const;
  // Returns the position of `rank` along axis `name`. This and the functions below throw std::logic_error for a name
  // that is not an axis.
  [[nodiscard]] std::int64_t coordinate(std::int64_t rank, const std::string& name) const;
  // Returns the group of `rank` that the axes `names` span. `names` may have any order; members are in grid order.
  [[nodiscard]] Group group(std::int64_t rank, const std::vector<std::string>& names) const;
  // Returns the first `most` of the groups that `names` span, sorted by their first ranks. All of them together
  // partition the ranks.
  [[nodiscard]] std::vector<Group> groups(const std::vector<std::string>& names, std::size_t most = all_groups) const;
  // group_size returns the number of ranks of each such group, position the position of `rank` in its group.
  [[nodiscard]] std::int64_t group_size(const std::vector<std::string>& names) const;
  [[nodiscard]] std::int64_t position(std::int64_t rank, const std::vector<std::string>& names) const;

 private:
  // An axis's size, and the distance in ranks between neighbours along it.
  struct Stride {
    std::int64_t size;
    std::int64_t stride;
  };
  [[nodiscard]] std::vector<Stride> strides_of(const std::vector<std::string>& names) const;
  [[nodiscard]] static std::int64_t position_of(std::int64_t rank, const std::vector<Stride>& spanned);
  [[nodiscard]] static Group group_of(std::int64_t rank, const std::vector<Stride>& spanned);

  std::vector<Axis> axes_;
};

enum class GridPlacement { innermost, outer };

struct ExtraParallel {
  std::string name;
  std::int64_t size = 1;
  GridPlacement placement = GridPlacement::innermost;
  // Whether the grid includes the tensor-parallel lanes: then x_fsdp = dp_shard * ulysses * cp * tp / x.
  bool folds_tp = false;
};

struct LayoutSizes {
  std::int64_t pp = 1, dp_replicate = 1, dp_shard = 1, ulysses = 1, cp = 1, tp = 1;
  std::vector<ExtraParallel> extra;  // all names of the settings, also those of size 1
  [[nodiscard]] std::int64_t world() const { return pp * dp_replicate * dp_shard * ulysses * cp * tp; }
};

// Returns the number of ranks that the size of `extra` must divide: those of one stage, one replica and, unless `extra`
// folds tp, one tensor-parallel lane.
[[nodiscard]] std::int64_t divisible_ranks(const LayoutSizes& sizes, const ExtraParallel& extra);

// Reports faults of the lists of extra parallels that do not depend on the number of ranks: unequal lengths, and
// invalid, repeated or reserved names.
void check_extra_parallels(const config::AcceleratorSettings& settings, base::Problems& problems);

// Computes the sizes for `world` ranks from the settings: fills in -1, and pairs names with sizes and placements.
// Reports sizes that do not fit, and names the sizes that would (`extra_parallel_sizes[0] = 3 (ep) does not divide 8
// ...; use 1, 2, 4 or 8`); the result must not be used then. Accepts axes that are not implemented yet, which the
// checks of the settings refuse. Precondition: world >= 1.
[[nodiscard]] LayoutSizes resolve_sizes(const config::AcceleratorSettings& settings, std::int64_t world,
                                        base::Problems& problems);

// Finds the groups of a layout. Functions throw std::logic_error for a group of an extra parallel that it does not
// have.
class Layout {
 public:
  // Precondition: the sizes are legal (resolve_sizes found no problem).
  explicit Layout(LayoutSizes sizes);
  [[nodiscard]] const LayoutSizes& sizes() const { return sizes_; }
  [[nodiscard]] std::int64_t world() const { return sizes_.world(); }
  [[nodiscard]] bool has_extra(const std::string& name) const;
  [[nodiscard]] const Grid& dense_grid() const { return dense_; }
  // Returns the grid of extra parallel `name`, with the axes (pp, x_replicate, x_fsdp, x, x_tp). x comes before x_fsdp
  // if its placement is outer; x_tp is missing if it folds tp.
  [[nodiscard]] const Grid& extra_grid(const std::string& name) const;
  // Returns every group over which something may travel, in a fixed order: world, fsdp, data, dp_replicate+fsdp (the
  // ranks that hold the same masters under ddp), each dense axis, and for each extra parallel x: x, x_fsdp,
  // x_replicate, x+x_fsdp (over which a whole use is gathered) and x_replicate+x_fsdp; with several stages also the
  // ranks of a stage.
  [[nodiscard]] std::vector<GroupId> group_ids() const;
  [[nodiscard]] Group group(std::int64_t rank, const GroupId& id) const;
  // Returns the first `most` of the groups along the axes of `id`, sorted by their first ranks. All of them together
  // partition the ranks.
  [[nodiscard]] std::vector<Group> groups(const GroupId& id, std::size_t most = all_groups) const;
  [[nodiscard]] std::int64_t group_size(const GroupId& id) const;
  [[nodiscard]] bool has_several_ranks(const GroupId& id) const { return !id.is_alone() && group_size(id) > 1; }
  // Returns the position of `rank` in its group.
  [[nodiscard]] std::int64_t position(std::int64_t rank, const GroupId& id) const;

 private:
  struct Span {
    const Grid* grid;
    std::vector<std::string> axes;
  };
  [[nodiscard]] Span span_of(const GroupId& id) const;

  LayoutSizes sizes_;
  Grid dense_;
  std::vector<Grid> extra_;
};

// Returns whether `rank` counts the tokens of its sequences: one of the ranks that work on the same ones does.
[[nodiscard]] bool counts_sequences(const Layout& layout, std::int64_t rank);

// Returns the groups of `layout` as text for `--dry-run`: one line per group name, with the group of `rank`. Leaves out
// the axes pp, ulysses, cp and tp where their size is 1. Shortens long groups to the first members and the last, and
// long lists to the first groups and their number.
[[nodiscard]] std::string describe_groups(const Layout& layout, std::int64_t rank);

}  // namespace tessera::layout

// Which rank stands where: the dense axes, one grid per extra parallel, and every group as a list of ranks.
//
// Axes, slowest to fastest: pp, dp_replicate, dp_shard, ulysses, cp, tp. An extra parallel `x` has a grid of its own
// over the ranks of one stage, one replica and one tensor-parallel lane: (x_replicate, x_fsdp, x) when innermost, else
// (x_replicate, x, x_fsdp); x_fsdp = dp_shard * ulysses * cp / x, x_replicate = dp_replicate. Pure arithmetic: a layout
// of a thousand ranks is computed by any one process.
#pragma once

#include "base/error.h"
#include "config/settings.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::layout {

// Ranks of one group in group order.
using Group = std::vector<std::int64_t>;

constexpr std::size_t all_groups = std::numeric_limits<std::size_t>::max();

struct Axis {
  std::string name;
  std::int64_t size = 1;
  friend bool operator==(const Axis&, const Axis&) = default;
};

// Named axes over consecutive ranks, slowest first.
class Grid {
 public:
  // Preconditions: names differ, sizes >= 1.
  explicit Grid(std::vector<Axis> axes);
  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  [[nodiscard]] bool has_axis(std::string_view name) const;
  [[nodiscard]] std::int64_t size() const;
  // Position of `rank` along axis `name`. Throws std::logic_error for a name that is no axis, also below.
  [[nodiscard]] std::int64_t coordinate(std::int64_t rank, const std::string& name) const;
  // The group of `rank` spanned by the axes `names` (any order; members in grid order).
  [[nodiscard]] Group group(std::int64_t rank, const std::vector<std::string>& names) const;
  // The groups spanned by `names`, by their first ranks: a partition of the ranks, or its first `most` groups.
  [[nodiscard]] std::vector<Group> groups(const std::vector<std::string>& names, std::size_t most = all_groups) const;
  // Number of ranks of each of these groups, and the position of `rank` in its own.
  [[nodiscard]] std::int64_t group_size(const std::vector<std::string>& names) const;
  [[nodiscard]] std::int64_t position(std::int64_t rank, const std::vector<std::string>& names) const;

 private:
  // An axis, and the distance in ranks between neighbours along it.
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
  bool folds_tp =
      false;  // the group runs over the tensor-parallel lanes too: x_fsdp = dp_shard * ulysses * cp * tp / x
};

struct LayoutSizes {
  std::int64_t pp = 1, dp_replicate = 1, dp_shard = 1, ulysses = 1, cp = 1, tp = 1;
  std::vector<ExtraParallel> extra;  // size 1 too: a name in the settings
  [[nodiscard]] std::int64_t world() const { return pp * dp_replicate * dp_shard * ulysses * cp * tp; }
};

// The ranks that the size of `extra` has to divide: those of one stage, one replica and one lane.
[[nodiscard]] std::int64_t divisible_ranks(const LayoutSizes& sizes, const ExtraParallel& extra);

// What is wrong with the lists of extra parallels for any number of ranks: lengths that differ, names that are none,
// stand there twice or would be confused with a group of the layout.
void check_extra_parallels(const config::AcceleratorSettings& settings, base::Problems& problems);

// Sizes for `world` ranks from the settings: -1 filled, names paired with sizes and placements. What does not fit is
// added to `problems` with the sizes that would (`extra_parallel_sizes[0] = 3 (ep) does not divide 8 ...; use 1, 2, 4
// or 8`): the result is then not to be used. Whether an axis is built yet is for the settings to say. Precondition:
// world >= 1.
[[nodiscard]] LayoutSizes resolve_sizes(const config::AcceleratorSettings& settings, std::int64_t world,
                                        base::Problems& problems);

// Names of groups used throughout, as strings: "world", "fsdp" (dp_shard+ulysses+cp: the cut of ordinary parameters),
// "data" (dp_replicate+dp_shard: ranks with sequences of their own), "dp_replicate+fsdp" (ranks that hold the same of
// what FSDP does not cut), each dense axis ("dp_replicate", ...), and for each extra parallel "x", "x_fsdp",
// "x_replicate", "x+x_fsdp" (a whole use spans both), "x_replicate+x_fsdp". Any other names of one grid may be joined
// by '+' ("dp_shard+cp", "x+x_tp"): the group spanned by both. Unknown names throw std::logic_error.
class Layout {
 public:
  // Precondition: the sizes are legal (resolve_sizes found no problem).
  explicit Layout(LayoutSizes sizes);
  [[nodiscard]] const LayoutSizes& sizes() const { return sizes_; }
  [[nodiscard]] std::int64_t world() const { return sizes_.world(); }
  [[nodiscard]] bool has_extra(const std::string& name) const;
  [[nodiscard]] const Grid& dense_grid() const { return dense_; }
  // Axes (pp, x_replicate, x_fsdp, x, x_tp), or x before x_fsdp when outer; without x_tp when it folds tp.
  [[nodiscard]] const Grid& extra_grid(const std::string& name) const;
  // Every group name of this layout, in a fixed order.
  [[nodiscard]] std::vector<std::string> group_names() const;
  [[nodiscard]] Group group(std::int64_t rank, const std::string& name) const;
  // The groups of that name, by their first ranks: a partition of the ranks, or its first `most` groups.
  [[nodiscard]] std::vector<Group> groups(const std::string& name, std::size_t most = all_groups) const;
  [[nodiscard]] std::int64_t group_size(const std::string& name) const;
  // Position of `rank` in its group `name`.
  [[nodiscard]] std::int64_t position(std::int64_t rank, const std::string& name) const;

 private:
  struct Span {
    const Grid* grid;
    std::vector<std::string> axes;
  };
  [[nodiscard]] Span span_of(const std::string& name) const;

  LayoutSizes sizes_;
  Grid dense_;
  std::vector<Grid> extra_;
};

// Groups of `layout` as text, one line a group name, and the group that `rank` is in (`--dry-run`). Axes of size 1 that
// were not asked for are left out; of long groups the first members and the last are shown, of many the first groups
// and their number.
[[nodiscard]] std::string describe_groups(const Layout& layout, std::int64_t rank);

}  // namespace tessera::layout

// The placement of each parameter's elements on the ranks: an ordered list of cuts, from which boxes and groups follow.
//
// Gather, reduce, clipping, checks, initial values, checkpoints and the memory plan take sizes, groups and boxes from
// here and never see the names of extra parallels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/parameter_spec.h"
#include "layout/block.h"
#include "layout/layout.h"
#include "plan/parallel_plan.h"
#include "plan/unit.h"

namespace tessera::plan {

// Divides `dim` of a tensor into blocks (layout::block_of) over the ranks of a group: the owners of an extra parallel,
// its FSDP group, or fsdp.
struct Cut {
  layout::GroupId group;
  std::int64_t dim = 0;
  friend bool operator==(const Cut&, const Cut&) = default;
};

struct Placement {
  base::ParameterSpec parameter;
  std::vector<Cut> cuts;   // outermost first, of different dims
  std::string extra;       // the name of the extra parallel that cuts dim 0, or empty
  std::string norm_group;  // the group that its gradient norm counts in: "dense", or the extra parallel's name
  // The ranks that hold the same shard: dp_replicate, x_replicate; under ddp dp_replicate+fsdp, x_replicate+x_fsdp.
  layout::GroupId replicate_group;

  // The ranks that own parts of dim 0; alone if no extra parallel cuts it.
  [[nodiscard]] layout::GroupId owners() const {
    return extra.empty() ? layout::GroupId() : layout::GroupId::of(extra, layout::ExtraAxis::owners);
  }
};

enum class MasterSharding { sharded, whole };  // whole: fsdp_mode ddp, in which the FSDP group does not cut masters

// Returns the placement of every parameter, in the order of `parameters`. FSDP cuts dim 0 of ordinary parameters; of
// stacks of experts (3 dims) with fewer experts than ranks it cuts the dim whose largest block is smallest (the first
// one if several are equal). An extra parallel cuts dim 0 of its parameters, and its FSDP group cuts dim 1. The
// parameters of an extra parallel of size 1 are ordinary ones, but its patterns are checked all the same. Reports the
// problems of assign(), and parameters that the plan names but that have no dim 1. Precondition: pp and tp are 1, and
// every parameter has a dim.
[[nodiscard]] std::vector<Placement> place(const std::vector<base::ParameterSpec>& parameters, const ParallelPlan& plan,
                                           const layout::Layout& layout, MasterSharding masters,
                                           base::Problems& problems);

// Reports stacks whose parameters are not all cut by the same extra parallel or by none, one problem for each kind of
// stack. Each of `stacks` lists the FQNs that one owned use takes together (gate, up and down of one layer): rows are
// sent to the rank that owns all of them. Precondition: every FQN has a placement.
void check_owned_stacks(const std::vector<Placement>& placements, const std::vector<std::vector<std::string>>& stacks,
                        base::Problems& problems);

// Returns the box of the master shard that `rank` keeps for the whole run.
[[nodiscard]] layout::Box shard_box(const Placement& placement, const layout::Layout& layout, std::int64_t rank);

// Returns the box that a use gathers on `rank`: the whole tensor, or for an owned use the rank's dim-0 part of the
// extra parallel.
[[nodiscard]] layout::Box use_box(const Placement& placement, UseKind use, const layout::Layout& layout,
                                  std::int64_t rank);

// Returns the group over which a use is gathered and reduced: x_fsdp (owned), x+x_fsdp (whole) or fsdp; under ddp x
// (whole). It is the rank alone if nothing that the use needs is cut.
[[nodiscard]] layout::GroupId gather_group(const Placement& placement, UseKind use);

// Returns true on exactly one rank per shard, which counts it in the gradient norm.
[[nodiscard]] bool is_primary_holder(const Placement& placement, const layout::Layout& layout, std::int64_t rank);

// Returns a table for `--dry-run` with each parameter's shape, the groups that cut it, and the block of each dim on
// `rank`.
[[nodiscard]] std::string describe_placements(const std::vector<Placement>& placements, const layout::Layout& layout,
                                              std::int64_t rank);

// Returns a line for the log for each extra parallel that splits only parameters that are gathered whole: it saves
// memory on each rank, but as much is communicated as under FSDP alone.
[[nodiscard]] std::vector<std::string> describe_whole_uses(const std::vector<Placement>& placements,
                                                           const std::vector<Unit>& units);

// Returns a line for the log about the plan's entries that shard nothing in this layout, because the settings do not
// name them or their size is 1; their parameters are ordinary ones. Empty if there are no such entries.
[[nodiscard]] std::string describe_unused_entries(const ParallelPlan& plan, const layout::Layout& layout);

}  // namespace tessera::plan

// Where each parameter's elements live: an ordered list of cuts, and what follows from it.
//
// Sizes, groups and boxes are read from here by gather, reduce, clip, check, initial values, checkpoint and memory
// plan, which never see the names of extra parallels.
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

// `dim` of a tensor is cut into ceil-blocks over the ranks of layout group `group` ("ep", "ep_fsdp", "fsdp").
struct Cut {
  std::string group;
  std::int64_t dim = 0;
  friend bool operator==(const Cut&, const Cut&) = default;
};

struct Placement {
  base::ParameterSpec parameter;
  std::vector<Cut> cuts;   // outermost first; different dims
  std::string extra;       // name of the extra parallel that cuts dim 0, or empty
  std::string norm_group;  // label of its gradient norm: "dense", or the extra parallel's name
  // Ranks that hold the same shard: "dp_replicate", "x_replicate", under ddp "dp_replicate+fsdp", "x_replicate+x_fsdp".
  std::string replicate_group;
};

enum class MasterSharding { sharded, whole };  // whole: `ddp`, masters are not cut by the FSDP group

// The placement of every parameter, in the order of `parameters`. Ordinary parameters are cut by FSDP on dim 0; stacks
// of experts (3 dims) with fewer experts than ranks on the dim with the smallest largest block (ties: the first);
// parameters of an extra parallel on dim 0 by it and on dim 1 by its FSDP group. An extra parallel of size 1 leaves
// ordinary parameters, but its patterns are checked like any other's. Problems: those of assign(), and a parameter
// named by a plan that has no dim 1. Preconditions: pp and tp are 1, every parameter has a dim.
[[nodiscard]] std::vector<Placement> place(const std::vector<base::ParameterSpec>& parameters, const ParallelPlan& plan,
                                           const layout::Layout& layout, MasterSharding masters,
                                           base::Problems& problems);

// Each of `stacks` is a list of FQNs that one owned use takes together (gate, up and down of one layer): rows come to
// the rank that owns all three, so all have to be cut by the same extra parallel, or none. Problems otherwise, one for
// each kind of stack. Precondition: every FQN has a placement.
void check_owned_stacks(const std::vector<Placement>& placements, const std::vector<std::vector<std::string>>& stacks,
                        base::Problems& problems);

// The box that `rank` keeps for good (its master shard).
[[nodiscard]] layout::Box shard_box(const Placement& placement, const layout::Layout& layout, std::int64_t rank);

// The box that a use gathers on `rank`: the whole tensor, or for an owned use its dim-0 part of the extra parallel.
[[nodiscard]] layout::Box use_box(const Placement& placement, UseKind use, const layout::Layout& layout,
                                  std::int64_t rank);

// The layout group over whose ranks a use is gathered and reduced: "x_fsdp" (owned), "x+x_fsdp" (whole), "fsdp"; under
// `ddp` "x" (whole); "" when nothing is cut that the use needs.
[[nodiscard]] std::string gather_group(const Placement& placement, UseKind use);

// True for exactly one rank per shard: its norm parts are counted there.
[[nodiscard]] bool is_primary_holder(const Placement& placement, const layout::Layout& layout, std::int64_t rank);

// Parameter table for people (`--dry-run`): parameter, shape, groups that cut it, and the block of each dim on `rank`.
[[nodiscard]] std::string describe_placements(const std::vector<Placement>& placements, const layout::Layout& layout,
                                              std::int64_t rank);

// A line for the log for each extra parallel that splits nothing but parameters that are gathered whole: its group
// holds less of them each, and they travel as far as under FSDP.
[[nodiscard]] std::vector<std::string> describe_whole_uses(const std::vector<Placement>& placements,
                                                           const std::vector<Unit>& units);

// One line for the log about the plan's entries that shard nothing in this layout (not named, or of size 1), whose
// parameters are therefore ordinary; empty if there are none.
[[nodiscard]] std::string describe_unused_entries(const ParallelPlan& plan, const layout::Layout& layout);

}  // namespace tessera::plan

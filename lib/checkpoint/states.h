// The states of its parameters that a rank saves, and the part of a shard that each of its holders writes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fsdp/parameter_store.h"
#include "layout/block.h"
#include "layout/layout.h"
#include "optim/optimizer.h"
#include "plan/placement.h"

namespace tessera::checkpoint {

struct ShardState {
  std::string name;   // "master", "exp_avg", ...
  at::Tensor tensor;  // has the shard's shape; shares storage with the store or the optimizer
};

// Returns the states of each parameter, in the store's order, the master first. Every rank has the same names.
[[nodiscard]] std::vector<std::vector<ShardState>> shard_states(const fsdp::ParameterStore& store,
                                                                const optim::Optimizer& optimizer);

// Returns the box of a parameter that `rank` writes: ranks that hold the same shard write one block of it each, along
// the dim whose largest block is smallest. `index` is that of the parameter; it rotates the blocks, so that the shorter
// ones go to different ranks.
[[nodiscard]] layout::Box written_box(const plan::Placement& placement, std::size_t index, const layout::Layout& layout,
                                      std::int64_t rank);

}  // namespace tessera::checkpoint

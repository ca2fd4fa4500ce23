// What a rank saves of its parameters, and which part of a shard each of its holders writes.
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
  at::Tensor tensor;  // of the shard's shape; shares storage with store or optimizer
};

// Of each parameter, in the store's order; the master first. The same names on every rank.
[[nodiscard]] std::vector<std::vector<ShardState>> shard_states(const fsdp::ParameterStore& store,
                                                                const optim::Optimizer& optimizer);

// The box of a parameter that `rank` writes: ranks that hold the same shard write a block of it each, along the dim
// whose largest block is smallest. `index` is the parameter's, by which the ranks take turns with the shorter blocks.
[[nodiscard]] layout::Box written_box(const plan::Placement& placement, std::size_t index, const layout::Layout& layout,
                                      std::int64_t rank);

}  // namespace tessera::checkpoint

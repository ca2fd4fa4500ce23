// Layouts of a few ranks, and what their shards are together: put in place and summed over the world, without the
// gathers that are tested.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/small_run.h"

namespace tessera::test {

// Options that add the named groups.
[[nodiscard]] Words groups(const std::vector<std::pair<std::string, std::int64_t>>& sizes);

// Collective over the world: the whole tensor on every rank, from the tensors of its shards' shape on their primary
// holders.
[[nodiscard]] at::Tensor gathered(const fsdp::ShardedParameter& parameter, const at::Tensor& shard);
[[nodiscard]] TensorsByName gathered_masters(train::Assembly& assembly);
// Of gradients by name, as test::gradients returns them.
[[nodiscard]] TensorsByName gathered_gradients(train::Assembly& assembly, const TensorsByName& shards);

// Collective over the world: `hash` of every rank, in rank order.
[[nodiscard]] std::vector<std::uint64_t> hashes_of_ranks(std::uint64_t hash);

// One whole step with this rank's batches.
executor::StepResult train_step(train::Assembly& assembly, const Start::Step& step, double lr = 0.01);

}  // namespace tessera::test

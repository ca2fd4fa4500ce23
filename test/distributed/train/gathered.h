// Options for layouts of a few ranks, and whole tensors from their shards: put in place and summed over the world,
// without the gathers under test.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/small_run.h"

namespace tessera::test {

// Returns options that add the named groups.
[[nodiscard]] Words groups(const std::vector<std::pair<std::string, std::int64_t>>& sizes);

// Returns the whole tensor on every rank, from the primary holders' tensors in the shape of their shards. Collective
// over the world.
[[nodiscard]] at::Tensor gathered(const fsdp::ShardedParameter& parameter, const at::Tensor& shard);
[[nodiscard]] TensorsByName gathered_masters(train::Assembly& assembly);
// Gathers gradients by name, as test::gradients returns them.
[[nodiscard]] TensorsByName gathered_gradients(train::Assembly& assembly, const TensorsByName& shards);

// Returns `hash` of every rank, in rank order. Collective over the world.
[[nodiscard]] std::vector<std::uint64_t> hashes_of_ranks(std::uint64_t hash);

// Runs one whole step with this rank's batches.
executor::StepResult train_step(train::Assembly& assembly, const Start::Step& step, double lr = 0.01);

}  // namespace tessera::test

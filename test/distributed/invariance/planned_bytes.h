// Computes the bytes that a step sends from the sizes of the shards and from the routing of a one-process model.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "executor/step_result.h"
#include "program/program.h"
#include "train/assemble.h"

namespace tessera::test {

// Bytes that a rank sent, by group.
using Bytes = std::map<std::string, std::int64_t>;

// Returns the bytes that `rank` sends in the first step of a float64 training with the micro-batches `inputs`, without
// the sums over the world. Of an exchange it counts the rows that belong to the rank: those that it sends and, since
// the same number comes back, those that are sent to it. So only the sum over the ranks equals the bytes moved.
[[nodiscard]] Bytes planned_bytes(const train::Blueprint& blueprint, const program::Program& program,
                                  const executor::StepInputs& inputs, std::int64_t rank);

}  // namespace tessera::test

// Bytes of a step by arithmetic: from the shards' sizes, and from where a one-process model sends its tokens.
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

// What `rank` sends in the first step of a float64 training, `inputs` being its micro-batches, but for the sums over
// the world. Of an exchange each rank counts the rows that are its own: those that it sends and, as the same number
// comes back, those that it is sent; so only the sum over the ranks is what was moved.
[[nodiscard]] Bytes planned_bytes(const train::Blueprint& blueprint, const program::Program& program,
                                  const executor::StepInputs& inputs, std::int64_t rank);

}  // namespace tessera::test

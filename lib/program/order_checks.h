// Whether a program can run: every read has been provided, nothing is left over, nothing is used while it is on its
// way.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "program/program.h"

namespace tessera::program {

// The faults found, each naming the line, the instruction and the resource that is missing; empty for a sound program.
//   - a read of a resource that nothing before provides, or that was freed
//   - a write of a resource that is there already; a unit gathered twice
//   - a wait for what was not started; a start that nothing waits for
//   - a write, add or free of what an operation under way reads, or a read of what it still adds to
//   - two that add to the same shard gradients at a time
//   - anything before the end of *open*, where the step may end
//   - a *close* before the sum over the replicas of a unit that has some; two such sums; shard gradients that are added
//     to behind that sum or behind *close*
//   - a resource that is never freed, a result that is missing
// It stops looking when it has found `enough`.
[[nodiscard]] std::vector<std::string> check_order(const Program& program,
                                                   std::size_t enough = std::numeric_limits<std::size_t>::max());

// Throws std::logic_error with the first faults unless the program is sound.
void expect_sound(const Program& program);

}  // namespace tessera::program

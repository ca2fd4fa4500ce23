// Checks that a program can run: each instruction finds what it reads, no resource is left over, and none is used while
// an operation on it is under way.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "program/program.h"

namespace tessera::program {

// Returns the faults found; none if the program is sound. Each names the line, the instruction and the resource. Stops
// after `enough` faults. The faults are:
//   - a read of a resource that nothing before provides, or that was freed
//   - a write of a resource that is there already; a unit gathered twice
//   - a wait for an operation that was not started; a start that nothing waits for
//   - a write, add or free of a resource that an operation under way reads, or a read of one that it still adds to
//   - two operations that add to the same shard gradients at a time
//   - any other instruction before the end of *open*, where the step may end
//   - a *close* before the sum over the replicas of a unit that has some; two such sums; an addition to shard gradients
//     after that sum or after *close*
//   - a resource that is never freed, a result that is missing
[[nodiscard]] std::vector<std::string> check_order(const Program& program,
                                                   std::size_t enough = std::numeric_limits<std::size_t>::max());

// Throws std::logic_error with the first faults unless the program is sound.
void expect_sound(const Program& program);

}  // namespace tessera::program

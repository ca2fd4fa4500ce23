// The order of a training step's passes: which micro-step runs forward or backward after which.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace tessera::program {

// One micro-step's way through all chains, in one direction.
struct Pass {
  std::int32_t micro = 0;
  Direction direction = Direction::forward;
  friend bool operator==(const Pass&, const Pass&) = default;
};

// Lanes, each a list of passes, that take turns: whenever a lane has sent rows on their way, the next one goes on. One
// lane alone runs without a break. A unit's gradients are reduced once for all backward passes of a Turns.
struct Turns {
  std::vector<std::vector<Pass>> lanes;
  friend bool operator==(const Turns&, const Turns&) = default;
};

using Schedule = std::vector<Turns>;

// Each micro-step runs forward and, if the step trains, backward, before the next one starts.
[[nodiscard]] Schedule one_after_other(std::int32_t micro_steps, StepKind kind);

// As one_after_other, but `together` micro-steps at a time take turns, each in a lane of its own.
[[nodiscard]] Schedule in_turns(std::int32_t micro_steps, std::int32_t together, StepKind kind);

// Throws std::logic_error, which names the pass, unless each of `micro_steps` runs forward once and, if the step
// trains, backward once, behind it: in the same lane, or in an earlier Turns.
void expect_legal(const Schedule& schedule, std::int32_t micro_steps, StepKind kind);

}  // namespace tessera::program

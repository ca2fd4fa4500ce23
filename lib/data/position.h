// A position in the order of the training data: two integers, the same on every rank and for every micro-batch size.
#pragma once

#include <cstdint>

#include "data/dataset.h"

namespace tessera::data {

// The next window to train on.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t index = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

// The windows of one optimizer step: `count` of them from `begin`, all of one epoch.
struct StepWindows {
  Position begin;
  std::int64_t count = 0;
  Position next;  // the start of the next step: {epoch + 1, 0} after the last window of the epoch
};

// Returns the step that begins at `position`: a global batch, or the rest of the epoch if that is shorter.
// Precondition: global_batch >= 1. Throws Error(bad_input) if the epoch has no such window (the checkpoint is of other
// data).
[[nodiscard]] StepWindows step_at(const Dataset& dataset, Position position, std::int64_t global_batch);

// Returns the number of steps from `from` to the end of the last epoch before `end_epoch`, or `enough` if that is
// smaller. An epoch has ceil(windows left / global_batch) steps. Packs epochs to count them only if their number of
// windows may change the result; logs a line if that takes long.
[[nodiscard]] std::int64_t steps_until(const Dataset& dataset, Position from, std::int64_t end_epoch,
                                       std::int64_t global_batch, std::int64_t enough);

}  // namespace tessera::data

// The place in the order of training data: two integers, the same on every rank and for every micro-batch size.
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
  Position next;  // where the next step begins: after the epoch's last window at {epoch + 1, 0}
};

// The step that begins at `position`: a global batch, or what is left of the epoch. Precondition: global_batch >= 1.
// Error(bad_input) if the position lies outside the epoch (a checkpoint of other data).
[[nodiscard]] StepWindows step_at(const Dataset& dataset, Position position, std::int64_t global_batch);

// Steps from `from` to the end of the last epoch before `end_epoch`, but at most `enough`: of each epoch ceil(windows
// left / global_batch). Epochs are looked at only if it is not known beforehand how many steps they have; a log line
// tells when that takes long.
[[nodiscard]] std::int64_t steps_until(const Dataset& dataset, Position from, std::int64_t end_epoch,
                                       std::int64_t global_batch, std::int64_t enough);

}  // namespace tessera::data

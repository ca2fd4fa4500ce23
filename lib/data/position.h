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

// Steps of an epoch of which `behind` windows have been trained on: ceil(windows left / global_batch), 0 if there are
// fewer than that.
[[nodiscard]] std::int64_t steps_in_epoch(const Dataset& dataset, std::int64_t epoch, std::int64_t global_batch,
                                          std::int64_t behind = 0);

}  // namespace tessera::data

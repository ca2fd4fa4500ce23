#include "data/position.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tessera::data {

StepWindows step_at(const Dataset& dataset, Position position, std::int64_t global_batch) {
  base::expect(global_batch >= 1, "a global batch of {}", global_batch);
  base::require(position.epoch >= 0 && position.index >= 0, "data position: window {} of epoch {}", position.index,
                position.epoch);
  const std::int64_t windows = dataset.windows(position.epoch);
  base::require(position.index < windows,
                "data position: window {} of epoch {}, which has {} windows: not the data of that checkpoint",
                position.index, position.epoch, windows);
  const std::int64_t count = std::min(global_batch, windows - position.index);
  const bool epoch_ends = position.index + count == windows;
  return {position, count,
          epoch_ends ? Position{position.epoch + 1, 0} : Position{position.epoch, position.index + count}};
}

std::int64_t steps_until(const Dataset& dataset, Position from, std::int64_t end_epoch, std::int64_t global_batch,
                         std::int64_t enough) {
  base::expect(global_batch >= 1, "a global batch of {}", global_batch);
  if (from.epoch >= end_epoch) return 0;
  const auto steps_of = [&](std::int64_t windows) {
    return windows / global_batch + (windows % global_batch == 0 ? 0 : 1);
  };
  auto steps = steps_of(std::max<std::int64_t>(0, dataset.windows(from.epoch) - from.index));
  const auto epochs = end_epoch - from.epoch - 1;
  if (steps >= enough || epochs == 0) return std::min(steps, enough);
  const auto [least_windows, most_windows] = dataset.window_bounds();
  const auto least = steps_of(least_windows);
  if (least > (enough - steps - 1) / epochs) return enough;
  if (least == steps_of(most_windows)) return steps + epochs * least;
  constexpr std::int64_t documents_in_seconds = 100'000'000;
  if (epochs > documents_in_seconds / dataset.corpus().documents())
    base::log_info("{}: counting the steps of {} epochs, each of which packs {} documents in another order",
                   dataset.corpus().setting(), epochs, dataset.corpus().documents());
  const auto windows_of = dataset.window_counter();
  for (auto epoch = from.epoch + 1; epoch < end_epoch && steps < enough; ++epoch) steps += steps_of(windows_of(epoch));
  return std::min(steps, enough);
}

}  // namespace tessera::data

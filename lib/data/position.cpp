#include "data/position.h"

#include <algorithm>

#include "base/error.h"

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

std::int64_t steps_in_epoch(const Dataset& dataset, std::int64_t epoch, std::int64_t global_batch,
                            std::int64_t behind) {
  base::expect(global_batch >= 1, "a global batch of {}", global_batch);
  const auto left = std::max<std::int64_t>(0, dataset.windows(epoch) - behind);
  return left / global_batch + (left % global_batch == 0 ? 0 : 1);
}

}  // namespace tessera::data

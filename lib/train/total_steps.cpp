#include "train/total_steps.h"

#include <algorithm>
#include <limits>

#include "data/position.h"

namespace tessera::train {

std::int64_t total_steps(const data::Dataset& training, const config::TrainSettings& settings,
                         std::int64_t global_batch, const checkpoint::Progress& start) {
  const auto limit = settings.max_steps > 0 ? settings.max_steps : std::numeric_limits<std::int64_t>::max();
  return start.step + data::steps_until(training, {start.epoch, start.window}, settings.num_train_epochs, global_batch,
                                        std::max<std::int64_t>(0, limit - start.step));
}

}  // namespace tessera::train

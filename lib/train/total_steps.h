// How long a run is.
#pragma once

#include <cstdint>

#include "checkpoint/manifest.h"
#include "config/settings.h"
#include "data/dataset.h"

namespace tessera::train {

// Returns the number of steps of the whole run, those before `start` included: the smaller of max_steps and the steps
// of num_train_epochs.
[[nodiscard]] std::int64_t total_steps(const data::Dataset& training, const config::TrainSettings& settings,
                                       std::int64_t global_batch, const checkpoint::Progress& start = {});

}  // namespace tessera::train

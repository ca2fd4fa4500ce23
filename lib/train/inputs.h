// Reads the inputs of a run.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "config/settings.h"
#include "data/dataset.h"
#include "device/place.h"
#include "train/assemble.h"

namespace tessera::train {

// The model, layout and data of a run. They fit together and are the same on all ranks.
struct Inputs {
  Blueprint blueprint;
  std::unique_ptr<data::Dataset> training;
  std::unique_ptr<data::Dataset> evaluation;  // null if there are no held-out data
};

// Collective over `ranks`. Reads config.json, plan and data for ranks that compute at `place`; the settings in the
// blueprint name the precision that `auto` stands for there. Writes nothing. Throws AgreedError(bad_input) with all
// problems, or with the first difference between ranks.
[[nodiscard]] Inputs read_inputs(config::Settings settings, comm::Communicator& ranks, device::Place place);

}  // namespace tessera::train

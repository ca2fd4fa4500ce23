// Fills the start page of a run from its parts.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "train/assemble.h"
#include "train/device_choice.h"
#include "train/hosts.h"
#include "train/report.h"

namespace tessera::train {

// The parts of a run that its start page describes.
struct StartedRun {
  const Assembly& assembly;
  const data::Dataset& training;
  const data::Dataset* evaluation = nullptr;  // null: no held-out data
  std::int64_t steps = 0;                     // of the whole run
  const Hosts& hosts;
  const DeviceChoice& device;
  int threads = 1;  // of this rank
};

[[nodiscard]] StartPage start_page(const StartedRun& run);

}  // namespace tessera::train

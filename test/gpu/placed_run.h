// A small run whose tensors are on the stand-in for a GPU, step by step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "device/place.h"
#include "executor/step_result.h"
#include "support/small_run.h"

namespace tessera::test {

// Everything of a run before its first step, at `place`. `gpu_world`: see mesh.h; null for one rank.
class PlacedRun {
 public:
  PlacedRun(const config::Settings& settings, device::Place place,
            const std::shared_ptr<comm::Communicator>& world = comm::solo_communicator(),
            const std::shared_ptr<comm::Communicator>& gpu_world = nullptr);

  [[nodiscard]] Start& start() { return start_; }
  // The results of the first `steps` steps, updates and all.
  [[nodiscard]] std::vector<executor::StepResult> train(std::int64_t steps);
  // Of this rank's shards, on the CPU, for the first step.
  [[nodiscard]] Gradients first_gradients();

 private:
  Start start_;
};

}  // namespace tessera::test

// A small run whose tensors are on the stand-in for a GPU, step by step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/place.h"
#include "executor/step_result.h"
#include "support/small_run.h"

namespace tessera::test {

inline const std::string accelerator = "--train.accelerator.";
// Options of runs that are compared in several layouts.
inline const Words numbers{"--train.precision", "float32", "--train.global_batch_size", "8"};

// Returns options that ask for named groups.
inline Words extra(const Words& names, const Words& sizes) {
  return joined(joined({accelerator + "extra_parallel_names"}, names),
                joined({accelerator + "extra_parallel_sizes"}, sizes));
}

// A run before its first step, with its tensors at `place`. `gpu_world`: see mesh.h; null for one rank.
class PlacedRun {
 public:
  PlacedRun(const config::Settings& settings, device::Place place,
            const std::shared_ptr<comm::Communicator>& world = comm::solo_communicator(),
            const std::shared_ptr<comm::Communicator>& gpu_world = nullptr);

  [[nodiscard]] Start& start() { return start_; }
  // Trains the first `steps` steps, with their updates, and returns their results.
  [[nodiscard]] std::vector<executor::StepResult> train(std::int64_t steps);
  // Returns the gradients of this rank's shards in the first step, on the CPU.
  [[nodiscard]] Gradients first_gradients();

 private:
  Start start_;
};

}  // namespace tessera::test

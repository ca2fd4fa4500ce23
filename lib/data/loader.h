// A thread that prepares this rank's micro-batches for the coming steps.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"
#include "data/position.h"
#include "layout/block.h"

namespace tessera::data {

struct LoaderOptions {
  std::int64_t global_batch = 1;
  // Returns, for a step of `windows` windows, the range of windows that this rank processes in each micro-step; a range
  // may be empty (layout/share.h). Runs on the loader's thread.
  std::function<std::vector<layout::Block>(std::int64_t windows)> shares;
  Position start;                                                     // of the first step
  std::int64_t end_epoch = std::numeric_limits<std::int64_t>::max();  // the steps end before this epoch
  std::int64_t steps_ahead = 2;                                       // most prepared steps that wait
};

// One step's data on this rank.
struct LoadedStep {
  StepWindows windows;         // of the global batch
  std::vector<Batch> batches;  // one per micro-step
};

// Call next() from one thread. The dataset must outlive the loader. The destructor stops the thread and waits for it.
class Loader {
 public:
  Loader(const Dataset& dataset, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next step, waiting until it is ready; nothing once end_epoch is reached. Rethrows an error of the
  // thread after the steps before it, and again in every later call.
  [[nodiscard]] std::optional<LoadedStep> next();

  // Returns the start of the step after the last one that next() returned, for checkpoints. Prepared steps that wait do
  // not count.
  [[nodiscard]] Position position() const;

 private:
  class Queue;
  std::unique_ptr<Queue> queue_;
};

}  // namespace tessera::data

// Reads ahead: a thread prepares this rank's micro-batches of the coming steps.
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
  // For a step of that many windows: the places that this rank processes in each micro-step, perhaps none
  // (layout/share.h). Called on the loader's thread.
  std::function<std::vector<layout::Block>(std::int64_t windows)> shares;
  Position start;                                                     // first step
  std::int64_t end_epoch = std::numeric_limits<std::int64_t>::max();  // steps of epochs before it
  std::int64_t steps_ahead = 2;                                       // at most this many steps wait
};

// One step's data on this rank.
struct LoadedStep {
  StepWindows windows;         // of the global batch
  std::vector<Batch> batches;  // one a micro-step
};

// One consumer. The dataset must outlive the loader. The destructor stops the thread and waits for it.
class Loader {
 public:
  Loader(const Dataset& dataset, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next step, waiting for it if need be; nothing once end_epoch is reached. An error of the thread is rethrown
  // here after the steps before it, and again by every later call.
  [[nodiscard]] std::optional<LoadedStep> next();

  // Where the step after the last one taken begins: what a checkpoint keeps. Steps that wait do not count.
  [[nodiscard]] Position position() const;

 private:
  class Queue;
  std::unique_ptr<Queue> queue_;
};

}  // namespace tessera::data

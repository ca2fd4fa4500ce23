// Writes and reports the results of a run after its last step.
#pragma once

#include "base/error.h"
#include "train/assemble.h"
#include "train/metrics.h"
#include "train/report.h"
#include "train/saves.h"
#include "train/trainer.h"

namespace tessera::train {

// The outputs that are still open.
struct RunOutputs {
  base::Path folder;
  MetricsFile* metrics = nullptr;  // rank 0's; null on the others
  Saves& saves;
  Report& report;
  double origin = 0;  // see write_trace; unused without train.log.trace
};

// Writes the last metrics, and the timeline and the weights if the settings ask for them; then shows the end page. The
// failure of one output does not keep the others from being written. Returns the exit code. Collective over the world.
// Throws AgreedError(rank_failed) that names every output that failed, the last save included.
[[nodiscard]] base::ExitCode end_run(Assembly& assembly, const Ending& ending, const RunOutputs& outputs);

}  // namespace tessera::train

// What a run writes and says once its last step is done.
#pragma once

#include "base/error.h"
#include "train/assemble.h"
#include "train/metrics.h"
#include "train/report.h"
#include "train/saves.h"
#include "train/trainer.h"

namespace tessera::train {

struct RunOutputs {
  base::Path folder;
  MetricsFile* metrics = nullptr;  // rank 0's; null on the others
  Saves& saves;
  Report& report;
  double origin = 0;  // of the timeline's clock, if train.log.trace asks for one
};

// Writes the timeline, the last metrics and the weights, as far as they are asked for, and the last page: each of them
// whatever became of the others. Collective over the world. AgreedError(rank_failed) that tells all that failed, the
// last save too; else how the run ended.
[[nodiscard]] base::ExitCode end_run(Assembly& assembly, const Ending& ending, const RunOutputs& outputs);

}  // namespace tessera::train

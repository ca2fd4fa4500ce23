// A training run, from settings to its last line.
#pragma once

#include "base/error.h"
#include "comm/world.h"
#include "config/settings.h"
#include "train/signals.h"

namespace tessera::train {

// Trains as the settings say. Writes settings.resolved.json and metrics.jsonl into train.checkpoint.output_dir, which
// it makes only after it has read and checked every input. Collective over the world.
//   done                                returned; all steps are done
//   hung_up, interrupted or terminated  returned; the run ended after a whole step because of `signals`
//   AgreedError(bad_input)              thrown; nothing was written or, if data turn out bad later, all steps before
//   are AgreedError(non_finite)             thrown; names step, batch and layer; the metrics of that step are written
//   AgreedError(rank_failed)            thrown; names all that could not be written at the end
[[nodiscard]] base::ExitCode run(const config::Settings& settings, comm::World& world, const StopSignals& signals);

}  // namespace tessera::train

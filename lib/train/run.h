// A run from settings to its last line: what main calls, and the end-to-end tests too.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "comm/world.h"
#include "config/settings.h"
#include "train/signals.h"

namespace tessera::train {

// Trains as the settings say. Writes settings.resolved.json and metrics.jsonl into train.checkpoint.output_dir, which
// is made only once every input has been read and checked. Collective over the world.
//   done                                returned; all steps are done
//   hung_up, interrupted or terminated  returned; the run ended after a whole step because of `signals`
//   Error(bad_input)                    thrown; nothing was written or, if data turn out bad later, all steps before are
//   Error(non_finite)                   thrown; names step, batch and layer; the metrics of that step are written
[[nodiscard]] base::ExitCode run(const config::Settings& settings, comm::World& world, const StopSignals& signals);

// What --dry-run prints for `rank` of `world` ranks: settings, groups, parameters, program of one step, memory. Opens
// the data and takes no memory for parameters.
[[nodiscard]] std::string dry_run(const config::Settings& settings, std::int64_t world, std::int64_t rank);

// The whole command: reads the command line, acts, prints an error once, returns the exit code.
[[nodiscard]] int run_command(int argc, const char* const* argv);

}  // namespace tessera::train

// Whether a run will be able to write what it is going to write, found before its first step.
#pragma once

#include "comm/communicator.h"
#include "config/output_names.h"
#include "config/settings.h"

namespace tessera::train {

using config::metrics_name;
using config::settings_name;

// Tries every path that a run with these settings will write: of train.checkpoint.output_dir, which is there and locked
// by this run, on every rank; the file of train.log.trace. Leaves nothing behind. Collective over `ranks`.
// AgreedError(bad_input) naming the path, the reason and the setting, also for what the run would replace although
// Tessera did not write it.
void try_outputs(const config::Settings& settings, comm::Communicator& ranks);

}  // namespace tessera::train

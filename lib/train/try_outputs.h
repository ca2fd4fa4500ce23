// Finds out before the first step of a run whether it can write its outputs.
#pragma once

#include "comm/communicator.h"
#include "config/output_names.h"
#include "config/settings.h"

namespace tessera::train {

using config::metrics_name;
using config::settings_name;

// Tries every path that a run with these settings will write: those in train.checkpoint.output_dir, on every rank, and
// the file of train.log.trace. Leaves nothing behind. Precondition: the folder exists, and this run has its lock.
// Collective over `ranks`. Throws AgreedError(bad_input) naming path, reason and setting if a path cannot be written,
// or if the run would replace a file there that Tessera did not write.
void try_outputs(const config::Settings& settings, comm::Communicator& ranks);

}  // namespace tessera::train

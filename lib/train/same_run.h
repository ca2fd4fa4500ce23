// The ranks of a job were started alike: by one command, with files that are the same on every host.
#pragma once

#include "checkpoint/stored_checkpoint.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "train/assemble.h"

namespace tessera::train {

// Collective over `world`. Compares, to the last digit: every setting, every key of the model, every pattern of the
// plan, where each parameter lies, the program of a step, how many windows, documents and tokens there are, and the
// data's fingerprint (Corpus). AgreedError(bad_input) names what differs, both values, and the rank. `evaluation` may
// be null.
void require_same_run(comm::Communicator& world, const Blueprint& blueprint, const data::Dataset& training,
                      const data::Dataset* evaluation);

// Collective over `world`. The same of the weights that the run begins with: the manifest of the checkpoint `stored`;
// or, if that is null, the index, the headers and a sample of the weights of model.model_path, if there is one.
void require_same_weights(comm::Communicator& world, const Blueprint& blueprint,
                          const checkpoint::StoredCheckpoint* stored);

}  // namespace tessera::train

// Checks that the ranks of a job were started alike: by one command, with the same files on every host.
#pragma once

#include "checkpoint/stored_checkpoint.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "train/assemble.h"

namespace tessera::train {

// Compares, to the last digit: every setting, every key of the model, every pattern of the plan, the placement of every
// parameter, the program of a step, the numbers of windows, documents and tokens, and the fingerprints of the data
// (Corpus). `evaluation` may be null. Collective over `world`. Throws AgreedError(bad_input) naming the first
// difference, both values, and the rank.
void require_same_run(comm::Communicator& world, const Blueprint& blueprint, const data::Dataset& training,
                      const data::Dataset* evaluation);

// Compares the weights that the run begins with in the same way: the manifest of the checkpoint `stored` or, if that is
// null, the index, the headers and a sample of the weights of model.model_path, if there is one. Collective over
// `world`. Throws AgreedError(bad_input) likewise.
void require_same_weights(comm::Communicator& world, const Blueprint& blueprint,
                          const checkpoint::StoredCheckpoint* stored);

}  // namespace tessera::train

// The weights for HuggingFace that a run writes at its end (train.checkpoint.save_hf_weights): the folder `hf` in its
// output folder. `hf.json` beside it tells which files of that folder a run wrote, with their lengths and times: those
// may be replaced, all others are a user's and stay.
#pragma once

#include "base/file.h"
#include "comm/communicator.h"
#include "config/settings.h"

namespace tessera::train {

[[nodiscard]] base::Path weights_folder(const base::Path& output);
// Where that folder is filled before it gets its name.
[[nodiscard]] base::Path unfinished_weights(const base::Path& output);

// Error(bad_input), with the way out, if the weights could not be written, or would replace what no run wrote, or what
// the model is read from.
void try_weights(const base::Path& output, const config::ModelSettings& model);

// Writes them from a checkpoint, and says which files of a user stand beside them. Collective over `ranks`.
// AgreedError(rank_failed) if that failed.
void write_weights(const base::Path& checkpoint, const base::Path& output, comm::Communicator& ranks);

}  // namespace tessera::train

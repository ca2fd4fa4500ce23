// Writes the weights for HuggingFace at the end of a run (train.checkpoint.save_hf_weights) into the folder `hf` in its
// output folder. `hf.json` beside it lists the files of that folder that a run wrote, with their lengths and times. A
// run may replace those; all other files are the user's and stay.
#pragma once

#include "base/file.h"
#include "comm/communicator.h"
#include "config/settings.h"

namespace tessera::train {

[[nodiscard]] base::Path weights_folder(const base::Path& output);
// Returns the path under which that folder is filled before it gets its name.
[[nodiscard]] base::Path unfinished_weights(const base::Path& output);

// Throws Error(bad_input), with the way out, if the weights could not be written, or would replace files that no run
// wrote or that the model is read from.
void try_weights(const base::Path& output, const config::ModelSettings& model);

// Writes the weights of a checkpoint, and logs which files of the user are beside them. Collective over `ranks`. Throws
// AgreedError(rank_failed) if that fails.
void write_weights(const base::Path& checkpoint, const base::Path& output, comm::Communicator& ranks);

}  // namespace tessera::train

// Chooses the checkpoint that a run goes on from, and compares the run with the one that wrote it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/stored_checkpoint.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "data/dataset.h"
#include "train/assemble.h"
#include "train/saves.h"

namespace tessera::train {

// Hashes the number of windows and some windows of the first epoch. Differs for other data, and for another order.
[[nodiscard]] std::uint64_t hash_of(const data::Dataset& dataset);

// The differences between a run and the one that wrote a checkpoint, a line each: "train.seed: 42 -> 7".
struct Changes {
  std::vector<std::string> altering;  // with these the run would not go on as the other one would have
  std::vector<std::string> harmless;  // with these it does
};

// `progress`: the beginning of the run, with its own total_steps and hashes of the data.
[[nodiscard]] Changes changes_since(const checkpoint::Manifest& manifest, const Blueprint& blueprint,
                                    const checkpoint::Progress& progress);

// Returns the progress with which training on data of that hash begins: the manifest's, but at the first window if the
// manifest tells of other data.
[[nodiscard]] checkpoint::Progress progress_from(const checkpoint::Manifest& manifest, std::uint64_t data_hash);

// The state in which a run begins.
struct Beginning {
  std::optional<base::Path> folder;  // of the checkpoint that the run goes on from; nothing if it begins afresh
  std::unique_ptr<checkpoint::StoredCheckpoint> stored;  // that checkpoint, or null
  checkpoint::Progress progress;
  SavedModel model;  // merges its own config.json with that of the checkpoint or HuggingFace folder that it begins with

  // Returns that checkpoint if it lies in `output`, under whatever name. Rank 0 decides for all. Collective over
  // `ranks`.
  [[nodiscard]] std::optional<SavedCheckpoint> saved_in(const base::Path& output, comm::Communicator& ranks) const;
  // Returns whether all steps had been taken before this start.
  [[nodiscard]] bool is_finished() const { return folder.has_value() && progress.step >= progress.total_steps; }
};

// Rank 0 chooses the checkpoint for all ranks, and every rank opens it. Logs harmless changes, and altering ones if
// allow_changes permits them; warns of a limit on the steps that the checkpoint has passed. `evaluation` may be null.
// Collective over `ranks`. Throws AgreedError(bad_input) if load_path is no checkpoint (listing those that are there),
// if it is damaged or of another model, or if there are altering changes that are not permitted.
[[nodiscard]] Beginning find_beginning(const Blueprint& blueprint, const data::Dataset& training,
                                       const data::Dataset* evaluation, comm::Communicator& ranks);

// Logs "resumed from ..." if the run goes on from a checkpoint, and a second line if no step is left.
void log_resume(const Beginning& beginning, const Assembly& assembly);

}  // namespace tessera::train

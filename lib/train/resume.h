// Going on from a checkpoint: which one, and whether this run is the one that wrote it.
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

// Tells other data apart, or the same in another order: the number of windows and some of them, of the first epoch.
[[nodiscard]] std::uint64_t hash_of(const data::Dataset& dataset);

// How a run differs from the one that wrote a checkpoint, a line each: "train.seed: 42 -> 7".
struct Changes {
  std::vector<std::string> altering;  // it would not go on as that run would have
  std::vector<std::string> harmless;  // it will
};

// `progress`: where the run would begin, with its own total_steps and hashes of the data.
[[nodiscard]] Changes changes_since(const checkpoint::Manifest& manifest, const Blueprint& blueprint,
                                    const checkpoint::Progress& progress);

// Where training begins from `manifest` with these data: its progress, or that with the data's first window if the data
// are others.
[[nodiscard]] checkpoint::Progress progress_from(const checkpoint::Manifest& manifest, std::uint64_t data_hash);

// Where a run begins.
struct Beginning {
  std::optional<base::Path> folder;  // of the checkpoint that it goes on from
  std::unique_ptr<checkpoint::StoredCheckpoint> stored;
  checkpoint::Progress progress;
  SavedModel model;  // of the checkpoint or the HuggingFace folder that it goes on from, and of its own config.json

  // That checkpoint, if it lies in `output`, under whatever name: rank 0 decides for all. Collective over `ranks`.
  [[nodiscard]] std::optional<SavedCheckpoint> saved_in(const base::Path& output, comm::Communicator& ranks) const;
  // All steps had been taken before this start.
  [[nodiscard]] bool is_finished() const { return folder.has_value() && progress.step >= progress.total_steps; }
};

// `evaluation` may be null. Rank 0 chooses the checkpoint for all; every rank opens it. Harmless changes are logged,
// and altering ones if they are allowed. Collective over `ranks`. AgreedError(bad_input) if load_path is no checkpoint
// (with those that are there), is damaged or of another model, or if there are changes that alter the run. Limits on
// the steps that the checkpoint has passed are warned of.
[[nodiscard]] Beginning find_beginning(const Blueprint& blueprint, const data::Dataset& training,
                                       const data::Dataset* evaluation, comm::Communicator& ranks);

// One line: "resumed from ..."; another if nothing is left to train.
void log_resume(const Beginning& beginning, const Assembly& assembly);

}  // namespace tessera::train

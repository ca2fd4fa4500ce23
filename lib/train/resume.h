// Going on from a checkpoint: which one, and whether this run is the one that wrote it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/stored_checkpoint.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "data/dataset.h"
#include "train/assemble.h"

namespace tessera::train {

// Rank 0's claim to the output folder, from before its checkpoints are looked at.
using OutputClaim = std::optional<checkpoint::FolderLock>;

// Rank 0 locks the output folder if it is there and decides for all: the folder of the checkpoint to go on from, or
// nothing for a fresh start. Collective over `world`. AgreedError(bad_input) if load_path is no checkpoint (with those
// that are there) or another run writes into the folder.
[[nodiscard]] std::optional<base::Path> choose_checkpoint(const config::CheckpointSettings& settings,
                                                          comm::Communicator& world, OutputClaim& claim);

// Tells other data apart, or the same in another order: the number of windows and some of them, of the first epoch.
[[nodiscard]] std::uint64_t hash_of(const data::Dataset& dataset);

// How a run differs from the one that wrote a checkpoint, a line each: "train.seed: 42 -> 7".
struct Changes {
  std::vector<std::string> altering;  // it would not go on as that run would have
  std::vector<std::string> harmless;  // it will
};

// `progress`: where the run would begin, with its own total_steps and data_hash.
[[nodiscard]] Changes changes_since(const checkpoint::Manifest& manifest, const Blueprint& blueprint,
                                    const checkpoint::Progress& progress);

// Where training begins from `manifest` with these data: its progress, or that with the data's first window if the data
// are others.
[[nodiscard]] checkpoint::Progress progress_from(const checkpoint::Manifest& manifest, std::uint64_t data_hash);

// Logs harmless changes, and altering ones if they are allowed; otherwise Error(bad_input) that lists them.
void require_same_run(const checkpoint::StoredCheckpoint& stored, const Changes& changes,
                      const config::CheckpointSettings& settings);

}  // namespace tessera::train

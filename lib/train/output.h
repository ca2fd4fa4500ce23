// The folder that a run writes into: one run at a time, one folder for all ranks.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "checkpoint/folder.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "train/hosts.h"
#include "train/metrics.h"
#include "train/resume.h"

namespace tessera::train {

// Rank 0 holds the lock of train.checkpoint.output_dir; the others nothing.
using OutputClaim = std::optional<checkpoint::FolderLock>;

// Locks the folder if it is there: before its checkpoints are looked at, and without making it. Collective over
// `ranks`. AgreedError(bad_input) if another run writes into it.
[[nodiscard]] OutputClaim claim_output(const config::CheckpointSettings& settings, comm::Communicator& ranks);

// Makes and locks the folder, and removes what a killed run left behind; writes settings.resolved.json, and cuts
// metrics.jsonl back to where the run begins. Rank 0 gets the metrics file: it writes for all, but for the shards of
// checkpoints. Collective over `ranks`. AgreedError(bad_input) if a rank does not see the same folder, with nothing
// written yet.
[[nodiscard]] std::optional<MetricsFile> open_output(const config::Settings& settings, const Beginning& beginning,
                                                     OutputClaim& claim, comm::Communicator& ranks, const Hosts& hosts);

// Where the weights for HuggingFace stand.
[[nodiscard]] base::Path weights_folder(const base::Path& output);

// Writes them from a checkpoint. Collective over `ranks`. Why that failed, the same on every rank, or nothing.
[[nodiscard]] std::string write_weights(const base::Path& checkpoint, const base::Path& output,
                                        comm::Communicator& ranks);

}  // namespace tessera::train

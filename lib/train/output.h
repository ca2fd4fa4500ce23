// The folder that a run writes into: one run at a time, one folder for all ranks.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "checkpoint/folder_lock.h"
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

struct Output {
  // Rank 0's: it writes for all, but for the shards of checkpoints.
  std::optional<MetricsFile> metrics;
  // An evaluation of the same held-out data was made where the run begins and stands in the metrics: it is not made
  // again. The same on every rank; its numbers are rank 0's.
  bool is_evaluated = false;
  std::optional<EvaluationMetrics> evaluation;
};

// Makes and locks the folder, tries every path that the run will write, and removes what a killed run left behind;
// writes settings.resolved.json, and cuts metrics.jsonl back to where the run begins. Metrics of another run, and its
// settings, are moved aside, with a warning that tells their new names. `evaluation`: the held-out data, or null.
// Collective over `ranks`. AgreedError(bad_input) if a rank does not see the same folder, or something cannot be
// written; then nothing is written, and the folders that this call made are removed.
[[nodiscard]] Output open_output(const config::Settings& settings, const Beginning& beginning,
                                 const data::Dataset* evaluation, OutputClaim& claim, comm::Communicator& ranks,
                                 const Hosts& hosts);

}  // namespace tessera::train

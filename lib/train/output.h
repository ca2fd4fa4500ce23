// Opens the output folder of a run. Only one run at a time writes into it, and all ranks see the same folder.
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

// The lock of train.checkpoint.output_dir on rank 0; nothing on the other ranks.
using OutputClaim = std::optional<checkpoint::FolderLock>;

// Locks the folder if it exists, so that nobody changes its checkpoints while this run chooses one. Does not make it.
// Collective over `ranks`. Throws AgreedError(bad_input) if another run writes into the folder.
[[nodiscard]] OutputClaim claim_output(const config::CheckpointSettings& settings, comm::Communicator& ranks);

struct Output {
  std::optional<MetricsFile> metrics;  // rank 0's, which writes for all ranks
  // Whether the metrics have an evaluation of the same held-out data at the step where the run begins. It is not made
  // again. The same on every rank.
  bool is_evaluated = false;
  std::optional<EvaluationMetrics> evaluation;  // that evaluation, on rank 0
};

// Makes and locks the folder, tries every path that the run will write, and removes the unfinished files of a killed
// run. Then writes settings.resolved.json, and cuts metrics.jsonl back to the step where the run begins. Moves metrics
// and settings of another run aside, with a warning that tells their new names. `evaluation`: the held-out data, or
// null. Collective over `ranks`. Throws AgreedError(bad_input) if a rank does not see the same folder, or if a path
// cannot be written; then nothing is written, and the folders that this call made are removed.
[[nodiscard]] Output open_output(const config::Settings& settings, const Beginning& beginning,
                                 const data::Dataset* evaluation, OutputClaim& claim, comm::Communicator& ranks,
                                 const Hosts& hosts);

}  // namespace tessera::train

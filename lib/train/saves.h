// When a run saves, and what it says of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/companions.h"
#include "checkpoint/manifest.h"
#include "checkpoint/saver.h"
#include "config/settings.h"
#include "train/assemble.h"

namespace tessera::train {

// "4 ranks: dp_shard 4; ep 2, emb 4 (outer)".
[[nodiscard]] std::string describe(const layout::LayoutSizes& sizes);

// What the start page says of checkpoints: "every 100 steps and at the end, in the background; the newest 3 are kept".
[[nodiscard]] std::string describe(const config::CheckpointSettings& settings);

// What a checkpoint says of the model beside its weights.
struct SavedModel {
  std::string config;                                        // config.json, with keys that Tessera does not read
  std::shared_ptr<const checkpoint::Companions> companions;  // rank 0's; null if there are none
};

// A whole checkpoint: the step that its manifest tells, and where it stands.
struct SavedCheckpoint {
  std::int64_t step = 0;
  base::Path folder;
};

// All calls but the constructor are collective over the world, between steps. A save that failed is logged; training
// goes on.
class Saves {
 public:
  // `output` must be there; `latest`: the checkpoint in it that the run goes on from. The assembly must outlive this.
  Saves(Assembly& assembly, SavedModel model, const base::Path& output, std::optional<SavedCheckpoint> latest,
        base::FileSystem& files = base::posix_file_system());

  // Lets the save under way go on to its next part, and reports it once it has ended. Costs nothing if there is none.
  void poll();
  // poll(), and starts a save if one is due: then it first waits for the one under way. That of the last step is waited
  // for. `epoch_has_ended`: with the step that `progress` counts last.
  void after_step(const checkpoint::Progress& progress, bool epoch_has_ended);
  // The run ends, done or stopped: saves what is not saved yet, if train.checkpoint.save_last, and waits.
  void at_end(const checkpoint::Progress& progress);
  // Waits for the save under way.
  void finish();

  // The newest checkpoint that this run wrote into `output`, or began from there.
  [[nodiscard]] const std::optional<SavedCheckpoint>& latest() const { return latest_; }
  // Why the last save failed, if it did.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

 private:
  void save(const checkpoint::Progress& progress, checkpoint::SaveMode mode);
  [[nodiscard]] bool is_saved(std::int64_t step) const { return latest_ && latest_->step == step; }
  void report(const checkpoint::SaveResult& result);

  const config::CheckpointSettings& settings_;
  checkpoint::SavedFacts facts_;
  checkpoint::Saver saver_;
  std::optional<SavedCheckpoint> latest_;
  std::optional<std::string> failure_;
};

}  // namespace tessera::train

// Decides when a run saves, and logs each save.
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

// Describes for the start page when checkpoints are written: "every 100 steps and at the end, in the background; the
// newest 3 are kept".
[[nodiscard]] std::string describe(const config::CheckpointSettings& settings);

// The parts of a model that a checkpoint keeps beside its weights.
struct SavedModel {
  std::string config;                                        // config.json, with the keys that Tessera does not read
  std::shared_ptr<const checkpoint::Companions> companions;  // on rank 0; null if there are none
};

// A whole checkpoint: the step in its manifest, and its folder.
struct SavedCheckpoint {
  std::int64_t step = 0;
  base::Path folder;
};

// All calls but the constructor are collective over the world; make them between steps. A save that fails is logged,
// and training goes on.
class Saves {
 public:
  // `latest`: the checkpoint in the folder `output` that the run goes on from. The folder must exist. The assembly must
  // outlive the object.
  Saves(Assembly& assembly, SavedModel model, const base::Path& output, std::optional<SavedCheckpoint> latest,
        base::FileSystem& files = base::posix_file_system());

  // Continues a save under way, and logs it once it has ended. Costs nothing if no save is under way.
  void poll();
  // Calls poll(), and saves if the settings ask for a save after this step. A new save first waits for the one under
  // way; the save of the last step is waited for. `epoch_has_ended`: whether the last step of `progress` ended an
  // epoch.
  void after_step(const checkpoint::Progress& progress, bool epoch_has_ended);
  // Call it at the end of a run that is done or stopped. Waits for the save under way, and saves the last step unless
  // it is saved already or train.checkpoint.save_last is false.
  void at_end(const checkpoint::Progress& progress);
  // Waits for the save under way.
  void finish();

  // Returns the newest checkpoint that this run wrote, or else the one that it goes on from if that lies in `output`.
  [[nodiscard]] const std::optional<SavedCheckpoint>& latest() const { return latest_; }
  // Returns the reason if the last save failed.
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

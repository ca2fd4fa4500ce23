// The training loop: takes steps from the data, runs their programs, evaluates, and says what happened.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "comm/agreement.h"
#include "data/content_hash.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/position.h"
#include "train/assemble.h"
#include "train/metrics.h"
#include "train/report.h"
#include "train/saves.h"
#include "train/signals.h"

namespace tessera::train {

// How a run ended.
struct Ending {
  std::string reason;               // "all 200 steps are done", "stopped by SIGTERM after step 57"
  int signal = 0;                   // that stopped it, or 0
  std::int64_t steps = 0;           // taken since the run's first start, skipped ones included
  std::int64_t steps_of_start = 0;  // of them, since this start
  std::int64_t skipped = 0;
  std::int64_t tokens = 0;                      // since this start, as the seconds
  double seconds = 0;                           // wall clock of the training loop, evaluations included
  double step_seconds = 0;                      // of the steps alone
  std::optional<EvaluationMetrics> evaluation;  // the last one
};

// What a trainer works with. All that it refers to must outlive it.
struct TrainerParts {
  Assembly& assembly;
  const data::Dataset& training;
  const data::Dataset* evaluation = nullptr;  // null: no held-out data
  const StopSignals& signals;
  MetricsFile* metrics = nullptr;                   // null on the ranks that do not write them
  Report& report;                                   // it knows the number of steps
  checkpoint::Progress start = {};                  // where the run goes on
  Saves* saves = nullptr;                           // null: nothing is to be saved
  std::optional<EvaluationMetrics> evaluated = {};  // the evaluation made at `start`, if any, on the rank that writes
  // Null but on a rank that hashes the training data in the background: checkpoints keep the hash once it is known (the
  // last one waits for it for up to ten seconds), and if `start` has another, the run ends on all ranks,
  // Error(bad_input), or a warning says so (allow_changes).
  const data::ContentHash* content = nullptr;
};

class Trainer {
 public:
  explicit Trainer(TrainerParts parts);

  // Runs until max_steps or num_train_epochs is reached, a signal asks to stop, or a loss, held-out loss or gradient is
  // not finite: AgreedError(non_finite), under on_nonfinite skip only after max_consecutive_skips such steps. Data that
  // cannot be read end the run as a signal does, with a save; then their AgreedError is thrown. Evaluates every
  // eval_steps and at the end. A signal ends the step under way, and the evaluation under way after its present
  // micro-batches, without a result. Compares replicas every
  // debug.check_replicas steps and at the end: AgreedError(rank_failed) if they differ. What is to be saved after a
  // step is saved before it is evaluated. Collective over the world.
  Ending train();

 private:
  void take_steps();
  [[noreturn]] void end_with_a_save(const comm::AgreedError& error);
  void take_step(const data::StepWindows& windows, executor::StepInputs inputs);
  bool is_stopped(const executor::StepResult& result);
  [[nodiscard]] executor::Stop stop_asked() const;
  // Calls `action`, which does not communicate; throws DataFailed on every rank if it throws on any. Collective.
  void agree_on_data(const std::function<void()>& action);
  // `own`: this rank's error, or null. Throws DataFailed. Collective.
  [[noreturn]] void end_for_data(const std::exception_ptr& own);
  void skip_or_end(const std::string& what);
  // Error(bad_input) if the data are not those that the run began with.
  void look_at_content();
  void look_at_content_once_more();
  // The next step of `loader`. Its error is made known to all ranks in *open* of a step before it is thrown.
  std::optional<data::LoadedStep> next_step(data::Loader& loader, program::StepKind kind);
  void record(const data::StepWindows& windows, const executor::StepResult& result, double lr, double seconds);
  void evaluate();
  void check_replicas();

  Assembly& assembly_;
  const data::Dataset& training_;
  const data::Dataset* evaluation_;
  const StopSignals& signals_;
  MetricsFile* metrics_;
  Report& report_;
  Saves* saves_;
  const data::ContentHash* content_;  // until it is known
  checkpoint::Progress progress_;
  std::int64_t checked_at_ = -1;
  std::int64_t skips_in_a_row_ = 0;
  Ending ending_;
};

// Steps of the whole run: the smaller of max_steps and the steps of num_train_epochs. With those of `start` behind it.
[[nodiscard]] std::int64_t total_steps(const data::Dataset& training, const config::TrainSettings& settings,
                                       std::int64_t global_batch, const checkpoint::Progress& start = {});

}  // namespace tessera::train

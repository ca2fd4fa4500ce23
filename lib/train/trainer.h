// The training loop: takes batches from the data, runs the programs of steps, evaluates, saves, and reports.
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

// The end of a run. Tokens and seconds count from this start of the run, the other numbers from its first start.
struct Ending {
  std::string reason;               // "all 200 steps are done", "stopped by SIGTERM after step 57"
  int signal = 0;                   // the signal that stopped it, or 0
  std::int64_t steps = 0;           // steps taken, skipped ones included
  std::int64_t steps_of_start = 0;  // those of `steps` that were taken since this start
  std::int64_t skipped = 0;         // those of `steps` that made no update
  std::int64_t tokens = 0;
  double seconds = 0;                           // wall clock of the training loop, evaluations included
  double step_seconds = 0;                      // wall clock of the steps alone
  std::optional<EvaluationMetrics> evaluation;  // the last one
};

// The objects that a trainer works with. They must outlive it.
struct TrainerParts {
  Assembly& assembly;
  const data::Dataset& training;
  const data::Dataset* evaluation = nullptr;  // null: no held-out data
  const StopSignals& signals;
  MetricsFile* metrics = nullptr;                   // null on the ranks that do not write metrics
  Report& report;                                   // knows the number of steps
  checkpoint::Progress start = {};                  // the step and window at which the run goes on
  Saves* saves = nullptr;                           // null: the run does not save
  std::optional<EvaluationMetrics> evaluated = {};  // on rank 0: the evaluation that was made at `start`, if any
  // Null except on a rank that hashes the training data in the background. Checkpoints store the hash once it is known;
  // the last one waits for it for up to ten seconds. If `start` has another hash, the run ends on all ranks with
  // Error(bad_input), or, under allow_changes, with a warning.
  const data::ContentHash* content = nullptr;
};

class Trainer {
 public:
  explicit Trainer(TrainerParts parts);

  // Trains until max_steps or num_train_epochs is reached, or until a signal asks to stop. Evaluates every eval_steps
  // and at the end; a save that is due after the same step comes first. Compares replicas every debug.check_replicas
  // steps and at the end. A signal lets the step under way finish; it ends an evaluation under way after its present
  // micro-batches, without a result. Collective over the world. Throws on every rank:
  //   AgreedError(non_finite)   a loss, held-out loss or gradient is not finite; under on_nonfinite skip only after
  //                             max_consecutive_skips such steps in a row
  //   AgreedError(bad_input)    data cannot be read, or have changed; the run first saves, as after a signal
  //   AgreedError(rank_failed)  replicas differ
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
  // Takes the hash of the data into the progress once it is known. Throws Error(bad_input) if the checkpoint has
  // another.
  void look_at_content();
  void look_at_content_once_more();
  // Returns the next step of `loader`, or nothing at its end. Before it throws an error, it tells the other ranks in
  // *open* of a step.
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
  const data::ContentHash* content_;  // null once its hash is known
  checkpoint::Progress progress_;
  std::int64_t checked_at_ = -1;
  std::int64_t skips_in_a_row_ = 0;
  Ending ending_;
};

}  // namespace tessera::train

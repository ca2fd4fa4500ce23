#include "train/trainer.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "data/batch.h"
#include "data/loader.h"
#include "data/position.h"
#include "layout/share.h"
#include "optim/schedule.h"
#include "train/replica_check.h"
#include "train/resume.h"

namespace tessera::train {

namespace {

constexpr std::array stops{std::pair{SIGINT, executor::Stop::interrupt}, std::pair{SIGTERM, executor::Stop::terminate},
                           std::pair{SIGHUP, executor::Stop::hang_up}, std::pair{SIGUSR1, executor::Stop::user}};

// A run that has done all its steps waits at most so long for the hash of its data.
constexpr double most_seconds_for_content = 10;

model::Values values_of(const data::Batch& b) {
  return model::batch_values(b.ids, b.labels, b.positions, b.attention_starts, b.sequence_starts);
}

executor::StepInputs inputs_of(const std::vector<data::Batch>& batches) {
  executor::StepInputs inputs;
  for (const auto& batch : batches) inputs.batches.push_back(values_of(batch));
  return inputs;
}

data::LoaderOptions loader_options(const Assembly& assembly, data::Position start, std::int64_t end_epoch) {
  const auto& blueprint = assembly.blueprint();
  const auto micro = blueprint.settings.train.micro_batch_size;
  const auto ranks = blueprint.data_ranks();
  const auto rank = blueprint.layout.position(assembly.rank(), layout::GroupId::data());
  data::LoaderOptions options;
  options.global_batch = blueprint.global_batch;
  options.shares = [=](std::int64_t windows) { return layout::sequences_of_rank(windows, micro, ranks, rank); };
  options.end_epoch = end_epoch;
  options.start = start;
  return options;
}

// Data of some rank cannot be read: every rank has it, in front of a step.
class DataFailed final : public comm::AgreedError {
 public:
  using AgreedError::AgreedError;
};

std::string describe(const data::StepWindows& w) {
  return fmt::format("epoch {}, windows {} to {}", w.begin.epoch, w.begin.index, w.begin.index + w.count - 1);
}

}  // namespace

Trainer::Trainer(TrainerParts parts)
    : assembly_(parts.assembly),
      training_(parts.training),
      evaluation_(parts.evaluation),
      signals_(parts.signals),
      metrics_(parts.metrics),
      report_(parts.report),
      saves_(parts.saves),
      content_(parts.content),
      progress_(std::move(parts.start)) {
  ending_.evaluation = std::move(parts.evaluated);
}

Ending Trainer::train() {
  const auto began = base::seconds_now();
  try {
    take_steps();
  } catch (const DataFailed& error) {
    end_with_a_save(error);
  } catch (const comm::AgreedError&) {
    // All ranks are here: what is being saved is still good.
    if (saves_ != nullptr) saves_->finish();
    throw;
  }
  ending_.steps = progress_.step;
  ending_.skipped = progress_.skipped_steps;
  ending_.seconds = base::seconds_now() - began;
  ending_.reason = ending_.signal == 0
                       ? fmt::format("all {} steps are done", report_.total_steps())
                       : fmt::format("stopped by {} after step {}", signal_name(ending_.signal), ending_.steps);
  return ending_;
}

// As after a signal: all ranks are between two steps, and what they have trained is good.
void Trainer::end_with_a_save(const comm::AgreedError& error) {
  std::string saved;
  if (saves_ != nullptr) {
    saves_->at_end(progress_);
    if (const auto& latest = saves_->latest(); latest && latest->step == progress_.step)
      saved = fmt::format("; the steps before are saved, and a run can go on after step {}", progress_.step);
  }
  throw comm::AgreedError(error.code(), error.what() + saved);
}

void Trainer::take_steps() {
  const auto& settings = assembly_.blueprint().settings.train;
  const auto evaluates = [&] { return settings.eval_steps > 0 && progress_.step % settings.eval_steps == 0; };
  // The run before this one may have ended between a save and the evaluation after it.
  if (progress_.step > 0 && evaluates()) evaluate();
  if (progress_.step < report_.total_steps()) {
    data::Loader loader(training_,
                        loader_options(assembly_, {progress_.epoch, progress_.window}, settings.num_train_epochs));
    while (ending_.signal == 0 && progress_.step < report_.total_steps()) {
      auto loaded = next_step(loader, program::StepKind::train);
      base::expect(loaded.has_value(), "the data ended after {} of {} steps", progress_.step, report_.total_steps());
      const auto before = progress_;
      take_step(loaded->windows, inputs_of(loaded->batches));
      if (progress_.step == before.step) break;
      if (const auto interval = settings.debug.check_replicas; interval > 0 && progress_.step % interval == 0)
        check_replicas();
      if (progress_.step == report_.total_steps()) look_at_content_once_more();
      if (saves_ != nullptr) saves_->after_step(progress_, progress_.epoch != before.epoch);
      if (evaluates()) evaluate();
    }
  }
  if (settings.debug.check_replicas > 0) check_replicas();
  if (saves_ != nullptr) saves_->at_end(progress_);
  if (ending_.signal == 0) evaluate();
}

void Trainer::check_replicas() {
  if (checked_at_ == progress_.step) return;
  const auto& layout = assembly_.blueprint().layout;
  const auto count =
      train::check_replicas(assembly_.store(), assembly_.optimizer(), layout, assembly_.mesh(), progress_.step);
  checked_at_ = progress_.step;
  base::log_info("replicas after step {}: of {} masters and moments {} are held by several ranks, all equal",
                 progress_.step, count.states, count.replicated);
}

// A program whose open agreed to stop has changed nothing.
bool Trainer::is_stopped(const executor::StepResult& result) {
  if (result.outcome == executor::Outcome::data_failed) end_for_data(nullptr);
  if (result.outcome != executor::Outcome::stopped) return false;
  for (const auto& [signal, stop] : stops)
    if (stop == result.stop) ending_.signal = signal;
  return true;
}

executor::Stop Trainer::stop_asked() const {
  for (const auto& [signal, stop] : stops)
    if (signal == signals_.received()) return stop;
  return executor::Stop::none;
}

void Trainer::agree_on_data(const std::function<void()>& action) {
  try {
    comm::agree_on(assembly_.world(), action);
  } catch (const comm::AgreedError& error) {
    throw DataFailed(error.code(), error.what());
  }
}

void Trainer::end_for_data(const std::exception_ptr& own) {
  agree_on_data([&] {
    if (own) std::rethrow_exception(own);
  });
  throw std::logic_error("no rank says why it has no data");
}

void Trainer::look_at_content() {
  if (content_ == nullptr) return;
  const auto hash = content_->value();
  if (!hash) return;
  const bool is_other = progress_.data_content != 0 && progress_.data_content != *hash;
  const auto what = fmt::format(
      "{}: files have changed since the checkpoint that this run went on from; a hash of all their bytes, read in the "
      "background, differs",
      training_.corpus().setting());
  const bool is_allowed = assembly_.blueprint().settings.train.checkpoint.allow_changes;
  base::require(!is_other || is_allowed, "{}; with --train.checkpoint.allow_changes true the run goes on nevertheless",
                what);
  if (is_other) base::log_warning("{}", what);
  progress_.data_content = *hash;
  content_ = nullptr;
}

// Before the last save, so that it has the hash of the data if that can be known without a long wait.
void Trainer::look_at_content_once_more() {
  const auto& checkpoint = assembly_.blueprint().settings.train.checkpoint;
  const bool saves = checkpoint.save_last || checkpoint.save_steps > 0 || checkpoint.save_epochs > 0;
  agree_on_data([&] {
    if (content_ != nullptr && saves) content_->wait_if_within(most_seconds_for_content);
    look_at_content();
  });
}

std::optional<data::LoadedStep> Trainer::next_step(data::Loader& loader, program::StepKind kind) {
  try {
    if (kind == program::StepKind::train) look_at_content();
    return loader.next();
  } catch (...) {
    const auto& blueprint = assembly_.blueprint();
    const auto& program = assembly_.program(kind, blueprint.global_batch);
    executor::StepInputs inputs;
    inputs.data_failed = true;
    inputs.batches.assign(static_cast<std::size_t>(program.micro_steps), values_of(data::make_batch({})));
    (void)assembly_.executor().run(program, std::move(inputs));
    end_for_data(std::current_exception());
  }
}

void Trainer::take_step(const data::StepWindows& windows, executor::StepInputs inputs) {
  const auto& settings = assembly_.blueprint().settings.train;
  const auto began = base::seconds_now();
  inputs.lr = optim::learning_rate(settings.optimizer, progress_.step, report_.total_steps());
  inputs.stop = stop_asked();
  const auto lr = inputs.lr;
  const auto result =
      assembly_.executor().run(assembly_.program(program::StepKind::train, windows.count), std::move(inputs));
  if (is_stopped(result)) return;
  ++progress_.step;
  progress_.optimizer_steps = assembly_.optimizer().steps();
  progress_.tokens += result.tokens;
  progress_.epoch = windows.next.epoch;
  progress_.window = windows.next.index;
  ++ending_.steps_of_start;
  ending_.tokens += result.tokens;
  base::log_debug("step {}: {}; {} of its tokens count", progress_.step, describe(windows), result.valid_tokens);
  const bool is_alone = settings.debug.only != config::OnlyHalf::none;
  const auto seconds = is_alone ? result.measured_s : base::seconds_now() - began;
  ending_.step_seconds += seconds;
  record(windows, result, lr, seconds);
  if (result.outcome == executor::Outcome::done) skips_in_a_row_ = 0;
  if (result.outcome == executor::Outcome::non_finite)
    skip_or_end(
        fmt::format("step {}: {} is not finite ({})", progress_.step, result.non_finite_where, describe(windows)));
}

// After a step whose numbers are not finite, and which has changed nothing.
void Trainer::skip_or_end(const std::string& what) {
  const auto& settings = assembly_.blueprint().settings.train;
  if (settings.on_nonfinite == config::OnNonfinite::stop)
    throw comm::AgreedError(base::ExitCode::non_finite,
                            what + "; lower train.optimizer.lr, or pass over such steps with train.on_nonfinite skip");
  if (++skips_in_a_row_ == settings.max_consecutive_skips)
    throw comm::AgreedError(
        base::ExitCode::non_finite,
        fmt::format(
            "{}; the last {} steps were all like that (train.max_consecutive_skips) and changed nothing: go on from an "
            "earlier checkpoint with a lower train.optimizer.lr",
            what, skips_in_a_row_));
  base::log_warning("{}; the step is skipped", what);
}

void Trainer::record(const data::StepWindows& windows, const executor::StepResult& result, double lr, double seconds) {
  const auto& blueprint = assembly_.blueprint();
  const bool updated = result.outcome == executor::Outcome::done;
  if (!updated) ++progress_.skipped_steps;
  if (result.outcome == executor::Outcome::skipped)
    base::log_warning("step {} is skipped: no token of its batch has a target ({})", progress_.step, describe(windows));
  StepMetrics m;
  m.step = progress_.step;
  m.ce_loss = result.cross_entropy;
  m.aux_loss = result.balance_loss;
  m.z_loss = result.z_loss;
  m.loss = m.ce_loss + blueprint.architecture.config().router_aux_loss_coef * m.aux_loss +
           blueprint.settings.model.router_z_loss_coef * m.z_loss;
  m.grad_norm = result.grad_norm;
  m.group_norms.assign(result.group_norms.begin(), result.group_norms.end());
  m.lr = lr;
  m.tokens = result.tokens;
  m.step_s = seconds;
  m.outcome = updated                                        ? StepOutcome::updated
              : result.outcome == executor::Outcome::skipped ? StepOutcome::without_targets
                                                             : StepOutcome::skipped;
  if (metrics_ != nullptr) metrics_->write(m);
  report_.step(m);
  const auto interval = blueprint.settings.train.moe_load_balance_monitor_interval;
  if (interval > 0 && m.step % interval == 0 && !result.expert_load.empty()) {
    const ExpertLoad load{.step = m.step, .slots = result.expert_load};
    if (metrics_ != nullptr) metrics_->write(load);
    report_.expert_load(load);
  }
}

// Held-out cross entropy over every window, without balance and z-loss; left without a result when a signal asks to
// stop.
void Trainer::evaluate() {
  if (ending_.signal != 0 || evaluation_ == nullptr || progress_.evaluated_at == progress_.step) return;
  const bool stops = assembly_.blueprint().settings.train.on_nonfinite == config::OnNonfinite::stop;
  const auto began = base::seconds_now();
  data::Loader loader(*evaluation_, loader_options(assembly_, {}, 1));
  EvaluationMetrics m{.step = progress_.step};
  double sum = 0;
  std::int64_t valid = 0;
  std::string not_finite;
  while (auto loaded = next_step(loader, program::StepKind::evaluate)) {
    const auto& program = assembly_.program(program::StepKind::evaluate, loaded->windows.count);
    auto inputs = inputs_of(loaded->batches);
    inputs.stop = stop_asked();
    const auto result = assembly_.executor().run(program, std::move(inputs));
    if (is_stopped(result)) return;
    sum += result.cross_entropy * static_cast<double>(result.valid_tokens);
    valid += result.valid_tokens;
    m.windows += result.sequences;
    if (saves_ != nullptr) saves_->poll();
    if (result.outcome != executor::Outcome::non_finite || !not_finite.empty()) continue;
    not_finite = fmt::format("evaluation after step {}: {} is not finite (held-out {})", progress_.step,
                             result.non_finite_where, describe(loaded->windows));
    if (stops) break;
  }
  m.tokens = valid;
  m.ce_loss = valid > 0 ? sum / static_cast<double>(valid) : std::numeric_limits<double>::quiet_NaN();
  m.seconds = base::seconds_now() - began;
  m.data_hash = hash_of(*evaluation_);
  progress_.evaluated_at = progress_.step;
  ending_.evaluation = m;
  if (metrics_ != nullptr) metrics_->write(m);
  report_.evaluation(m);
  if (!not_finite.empty() && stops)
    throw comm::AgreedError(base::ExitCode::non_finite,
                            not_finite + "; lower train.optimizer.lr, or let it pass with train.on_nonfinite skip");
  if (!not_finite.empty()) base::log_warning("{}; the run goes on", not_finite);
}

}  // namespace tessera::train

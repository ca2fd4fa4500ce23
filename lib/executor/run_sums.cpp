// The sums that frame a step: open, counts, close; and what is decided with them: clip and update.
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "executor/run.h"
#include "fsdp/element_type.h"
#include "optim/gradient_norm.h"

namespace tessera::executor {

using architecture::ValueKind;
using comm::ElementType;
using comm::ReduceOperation;
using program::ResourceKind;

namespace {

// Places in the vector of *open*; tokens of each micro-step follow.
enum OpenPlace : std::size_t {
  open_valid,
  open_sequences,
  open_data_failed,
  open_stop_none,  // from here the number of ranks for each Stop
  open_tokens = open_stop_none + 5
};
// Places in the vector of *close*; then per rank its first non-finite layer + 1 and its last non-finite gradient + 1,
// the norm parts (unless they are maxima), and the load of experts.
enum ClosePlace : std::size_t { close_cross_entropy, close_balance, close_z, close_ranks };

std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

void Executor::Run::start_sum(const Instruction& i, const Numbers& numbers, comm::ReduceOperation operation) {
  under_way_[i.ticket].push_back(
      {"world", world()->all_reduce(numbers->data(), static_cast<std::int64_t>(numbers->size()), ElementType::float64,
                                    operation, numbers)});
}

void Executor::Run::start_open(const Instruction& i) {
  auto& open = *open_;
  // As long on a rank without data, which does not know how many micro-steps the others have.
  const auto micro_steps = executor_.options_.most_micro_steps;
  base::expect(program_.micro_steps <= micro_steps, "a step of {} micro-steps where there are {} at most",
               program_.micro_steps, micro_steps);
  open.assign(open_tokens + size_of(micro_steps), 0.0);
  if (inputs_.stop != Stop::none) open[open_stop_none + size_of(static_cast<int>(inputs_.stop))] = 1;
  open[open_data_failed] = inputs_.data_failed ? 1 : 0;
  for (std::size_t m = 0; m < inputs_.batches.size(); ++m) {
    const auto& batch = inputs_.batches[m];
    const auto& labels = batch.at({ValueKind::labels, -1});
    open[open_valid] += static_cast<double>(labels.ge(0).sum().item<std::int64_t>());
    open[open_sequences] += static_cast<double>(batch.at({ValueKind::sequence_starts, -1}).numel() - 1);
    open[open_tokens + m] = static_cast<double>(labels.numel());
  }
  start_sum(i, open_, ReduceOperation::add);
}

void Executor::Run::finish_open() {
  const auto& open = *open_;
  result_.valid_tokens = std::llround(open[open_valid]);
  result_.sequences = std::llround(open[open_sequences]);
  for (std::size_t k = open_tokens; k < open.size(); ++k) result_.tokens += std::llround(open[k]);
  if (open[open_valid] == 0) result_.outcome = Outcome::skipped;
  if (trains())
    for (const auto& group : executor_.norm_groups_) result_.group_norms[group] = 0;  // until *close*, if there is one
  for (const auto stop : {Stop::user, Stop::hang_up, Stop::terminate, Stop::interrupt})
    if (open[open_stop_none + size_of(static_cast<int>(stop))] > 0) result_.stop = stop;
  if (result_.stop != Stop::none) result_.outcome = Outcome::stopped;
  if (open[open_data_failed] > 0) result_.outcome = Outcome::data_failed;
  ends_early_ = result_.outcome != Outcome::done;
}

model::StepFacts Executor::Run::facts(std::int32_t micro) const {
  model::StepFacts facts;
  facts.loss_scale = 1 / static_cast<double>(result_.valid_tokens);
  if (program_.kind == program::StepKind::evaluate) return facts;
  const auto layers = static_cast<double>(moe_layers_.size());
  const auto tokens = static_cast<double>(result_.tokens);
  facts.balance_scale = executor_.options_.balance == config::BalanceLoss::sequence
                            ? 1 / static_cast<double>(result_.sequences)
                            : 1 / static_cast<double>(program_.micro_steps);
  facts.routed_tokens = (*open_)[open_tokens + size_of(micro)];
  facts.z_scale = layers == 0 ? 0 : 1 / (tokens * layers);
  return facts;
}

void Executor::Run::start_counts(const Instruction& i) {
  std::vector<at::Tensor> counts;
  for (const auto& r : i.reads) counts.push_back(tape_.value(r));
  const auto& sum = counts_[i.micro] = at::stack(counts);  // [MoE layers, sets, experts], a copy: summed in place
  under_way_[i.ticket].push_back({"world", group_for("world", sum)
                                               .all_reduce(sum.data_ptr(), sum.numel(), ElementType::int64,
                                                           ReduceOperation::add, std::make_shared<at::Tensor>(sum))});
}

void Executor::Run::finish_counts(const Instruction& i) {
  store(i.writes.front(), counts_.at(i.micro));
  counts_.erase(i.micro);
}

void Executor::Run::start_close(const Instruction& i) {
  auto& close = *close_;
  const auto ranks = size_of(world()->size());
  const auto rank = size_of(world()->rank());
  close.assign(close_ranks + 2 * ranks, 0.0);
  const auto measured = at::stack({sums_.cross_entropy, sums_.balance, sums_.z}).cpu();
  std::copy_n(measured.const_data_ptr<double>(), 3, close.begin() + close_cross_entropy);
  close[close_ranks + rank] = first_non_finite() + 1;
  if (trains()) {
    auto parts = norm_parts(i);
    if (std::any_of(parts.begin(), parts.end(), [](double part) { return !std::isfinite(part); }))
      close[close_ranks + ranks + rank] = static_cast<double>(last_non_finite_gradient()) + 1;
    if (optim::combination_of(executor_.options_.norm_type) == optim::Combination::maximum)
      *maxima_ = std::move(parts);
    else
      close.insert(close.end(), parts.begin(), parts.end());
    if (!load_.empty()) {
      const auto load = at::stack(load_).cpu();
      close.insert(close.end(), load.const_data_ptr<std::int64_t>(),
                   load.const_data_ptr<std::int64_t>() + load.numel());
    }
  }
  start_sum(i, close_, ReduceOperation::add);
  if (!maxima_->empty()) start_sum(i, maxima_, ReduceOperation::max);
}

// The layer, or -1.
std::int32_t Executor::Run::first_non_finite() const {
  if (finite_.empty()) return -1;
  std::vector<at::Tensor> flags;
  for (const auto& [layer, finite] : finite_) flags.push_back(finite);
  const auto known = at::stack(flags).cpu();
  for (std::size_t k = 0; k < flags.size(); ++k)
    if (!known.const_data_ptr<bool>()[k]) return finite_[k].first;
  return -1;
}

std::vector<double> Executor::Run::norm_parts(const Instruction& i) {
  const auto& groups = executor_.norm_groups_;
  std::vector<optim::GroupedGradient> gradients;
  for (const auto& p : executor_.store_.parameters()) {
    if (!p.is_primary) continue;
    const auto group = std::find(groups.begin(), groups.end(), p.placement.norm_group) - groups.begin();
    gradients.push_back({&p.gradient, static_cast<std::size_t>(group)});
  }
  const auto norm_type = executor_.options_.norm_type;
  if (optim::is_scaled(norm_type)) {
    *scales_ = optim::norm_parts(gradients, groups.size(), std::numeric_limits<double>::infinity());
    start_sum(i, scales_, ReduceOperation::max);
    end_travel(i);
  }
  return optim::norm_parts(gradients, groups.size(), norm_type, *scales_);
}

// The index of the parameter, or -1. Backward runs from the head: the last one is the nearest to where it arose.
std::int64_t Executor::Run::last_non_finite_gradient() const {
  const auto& parameters = executor_.store_.parameters();
  const auto norm_type = executor_.options_.norm_type;
  const auto looks_at = optim::is_scaled(norm_type) ? std::numeric_limits<double>::infinity() : norm_type;
  for (std::size_t k = parameters.size(); k-- > 0;)
    if (!std::isfinite(optim::norm_part(parameters[k].gradient, looks_at))) return static_cast<std::int64_t>(k);
  return -1;
}

void Executor::Run::finish_close() {
  const auto& close = *close_;
  auto& parts = *maxima_;  // of the norms
  const auto ranks = size_of(world()->size());
  result_.cross_entropy = close[close_cross_entropy] / static_cast<double>(result_.valid_tokens);
  result_.balance_loss = close[close_balance];
  result_.z_loss = close[close_z];
  const auto& o = executor_.options_;
  const auto total = result_.cross_entropy + o.balance_coef * result_.balance_loss + o.z_coef * result_.z_loss;
  const auto layers = executor_.architecture_.config().num_hidden_layers;
  std::int64_t layer = layers, layer_rank = 0;  // the first layer on any rank, and the first rank of it
  std::int64_t gradient = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (const auto first = std::llround(close[close_ranks + r]); first > 0 && first - 1 < layer) {
      layer = first - 1;
      layer_rank = static_cast<std::int64_t>(r);
    }
    gradient = std::max<std::int64_t>(gradient, std::llround(close[close_ranks + ranks + r]));
  }
  auto place = close_ranks + 2 * ranks;
  if (trains()) {
    const auto groups = executor_.norm_groups_.size();
    if (parts.empty()) {
      parts.assign(close.begin() + static_cast<std::ptrdiff_t>(place),
                   close.begin() + static_cast<std::ptrdiff_t>(place + groups));
      place += groups;
    }
    const auto norms = optim::finish_norms(parts, o.norm_type, *scales_);
    result_.grad_norm = norms.total;
    for (std::size_t g = 0; g < groups; ++g) result_.group_norms[executor_.norm_groups_[g]] = norms.groups[g];
    result_.expert_load.resize(load_.size());
    for (std::size_t m = 0; m < load_.size(); ++m)
      for (std::int64_t e = 0; e < load_[m].numel(); ++e)
        result_.expert_load[m].push_back(std::llround(close[place++]));
  }
  if (std::isfinite(total) && std::isfinite(result_.grad_norm)) return;
  result_.outcome = Outcome::non_finite;
  if (layer < layers)
    result_.non_finite_where =
        fmt::format("the output of layer {}{}", layer, ranks > 1 ? fmt::format(" on rank {}", layer_rank) : "");
  else if (!std::isfinite(total))
    result_.non_finite_where = "the loss";
  else
    result_.non_finite_where =
        gradient > 0 ? "the gradient of " + executor_.store_.parameters()[size_of(gradient - 1)].placement.parameter.fqn
                     : "the gradient norm";
}

void Executor::Run::start_replicas(const Instruction& i) {
  // A parameter that several units use has one shard gradient: it is summed with the first of them.
  for (const auto index : executor_.store_.home_parameters(size_of(i.target))) {
    auto& p = executor_.store_.parameters()[index];
    const auto& group = executor_.mesh_.communicator(p.placement.replicate_group);
    under_way_[i.ticket].push_back(
        {p.placement.replicate_group,
         group->all_reduce(p.gradient.data_ptr(), p.gradient.numel(), fsdp::element_type(p.gradient.scalar_type()),
                           ReduceOperation::add, std::make_shared<at::Tensor>(p.gradient))});
  }
}

void Executor::Run::clip() {
  result_.clip_factor = result_.outcome == Outcome::non_finite
                            ? std::numeric_limits<double>::quiet_NaN()
                            : optim::clip_factor(result_.grad_norm, executor_.options_.max_grad_norm);
}

void Executor::Run::update() {
  if (result_.outcome == Outcome::done) {
    base::expect(executor_.optimizer_ != nullptr, "an update without an optimizer");
    executor_.optimizer_->step(inputs_.lr, result_.clip_factor);
  }
  executor_.store_.zero_gradients();
}

}  // namespace tessera::executor

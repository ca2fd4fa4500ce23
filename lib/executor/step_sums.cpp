#include "executor/step_sums.h"

#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "comm/element_type.h"
#include "optim/gradient_norm.h"

namespace tessera::executor {

using comm::ElementType;
using comm::ReduceOperation;
using program::SumKind;

namespace {

constexpr std::size_t stops = static_cast<std::size_t>(Stop::user) + 1;

std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace

StepSums::StepSums(const Parts& parts, const program::Program& program, const StepInputs& inputs, Tape& tape,
                   Travels& travels, const Measurements& measurements, StepResult& result)
    : parts_(parts),
      program_(program),
      inputs_(inputs),
      tape_(tape),
      travels_(travels),
      measurements_(measurements),
      result_(result) {
  // As long on a rank without data, which does not know how many micro-steps the others have.
  const auto micro_steps = parts.options.most_micro_steps;
  base::expect(program.micro_steps <= micro_steps, "a step of {} micro-steps where there are {} at most",
               program.micro_steps, micro_steps);
  open_fields_ = {.valid_tokens = open_layout_.add(),
                  .sequences = open_layout_.add(),
                  .data_failed = open_layout_.add(),
                  .stops = open_layout_.add(stops),
                  .tokens = open_layout_.add(size_of(micro_steps))};
  const auto ranks = size_of(parts.world().size());
  const auto experts = size_of(parts.architecture.config().num_experts);
  close_fields_ = {.cross_entropy = close_layout_.add(),
                   .balance = close_layout_.add(),
                   .z = close_layout_.add(),
                   .non_finite_layer = close_layout_.add(ranks),
                   .non_finite_gradient = close_layout_.add(ranks),
                   .norms = close_layout_.add(trains() && !norms_are_maxima() ? parts.norm_groups.size() : 0),
                   .load = close_layout_.add(trains() ? parts.counts.size() * experts : 0)};
}

bool StepSums::norms_are_maxima() const {
  return optim::combination_of(parts_.options.norm_type) == optim::Combination::maximum;
}

void StepSums::start(const Instruction& i) {
  switch (i.sum) {
    case SumKind::open: return start_open(i);
    case SumKind::counts: return start_counts(i);
    case SumKind::close: return start_close(i);
    case SumKind::replicas: return start_replicas(i);
  }
}

void StepSums::finish(const Instruction& i) {
  switch (i.sum) {
    case SumKind::open: return finish_open();
    case SumKind::counts: return finish_counts(i);
    case SumKind::close: return finish_close();
    case SumKind::replicas: return;
  }
}

void StepSums::start_reduce(const Instruction& i, const std::shared_ptr<std::vector<double>>& numbers,
                            ReduceOperation operation) {
  const auto& group = program_.sum_groups.at(static_cast<std::size_t>(i.sum));
  travels_.add(i.ticket, {group, parts_.mesh.host(group)->all_reduce(numbers->data(), std::ssize(*numbers),
                                                                     ElementType::float64, operation, numbers)});
}

void StepSums::start_open(const Instruction& i) {
  open_.reset(open_layout_);
  const auto& f = open_fields_;
  if (inputs_.stop != Stop::none) open_[f.stops][static_cast<std::size_t>(inputs_.stop)] = 1;
  open_[f.data_failed][0] = inputs_.data_failed ? 1 : 0;
  // Of the ranks that work on the same sequences one counts them; what is measured of a token stands on one rank
  // anyway.
  for (std::size_t m = 0; parts_.options.counts_sequences && m < inputs_.batches.size(); ++m) {
    const auto counts = model::counts_of(inputs_.batches[m]);
    open_[f.valid_tokens][0] += static_cast<double>(counts.valid_tokens);
    open_[f.sequences][0] += static_cast<double>(counts.sequences);
    open_[f.tokens][m] = static_cast<double>(counts.tokens);
  }
  start_reduce(i, open_.shared(), ReduceOperation::add);
}

void StepSums::finish_open() {
  const auto& f = open_fields_;
  result_.valid_tokens = open_.count(f.valid_tokens);
  result_.sequences = open_.count(f.sequences);
  for (const auto tokens : open_[f.tokens]) result_.tokens += std::llround(tokens);
  if (result_.valid_tokens == 0) result_.outcome = Outcome::skipped;
  if (trains())
    for (const auto& group : parts_.norm_groups) result_.group_norms[group] = 0;  // until *close*, if there is one
  for (const auto stop : {Stop::user, Stop::hang_up, Stop::terminate, Stop::interrupt})
    if (open_[f.stops][static_cast<std::size_t>(stop)] > 0) result_.stop = stop;
  if (result_.stop != Stop::none) result_.outcome = Outcome::stopped;
  if (open_.number(f.data_failed) > 0) result_.outcome = Outcome::data_failed;
  ends_early_ = result_.outcome != Outcome::done;
}

model::StepFacts StepSums::facts(std::int32_t micro) const {
  model::StepFacts facts;
  facts.loss_scale = 1 / static_cast<double>(result_.valid_tokens);
  if (program_.kind == program::StepKind::evaluate) return facts;
  const auto layers = static_cast<double>(parts_.counts.size());
  const auto tokens = static_cast<double>(result_.tokens);
  facts.balance_scale = parts_.options.balance == config::BalanceLoss::sequence
                            ? 1 / static_cast<double>(result_.sequences)
                            : 1 / static_cast<double>(program_.micro_steps);
  facts.routed_tokens = open_[open_fields_.tokens][size_of(micro)];
  facts.z_scale = layers == 0 ? 0 : 1 / (tokens * layers);
  return facts;
}

void StepSums::start_counts(const Instruction& i) {
  std::vector<at::Tensor> counts;
  for (const auto& r : i.reads) counts.push_back(tape_.value(r));
  const auto& sum = counts_[i.micro] = at::stack(counts);  // [MoE layers, sets, experts], a copy: summed in place
  const auto& group = program_.sum_groups.at(static_cast<std::size_t>(i.sum));
  travels_.add(i.ticket, {group, parts_.group_for(group, sum)
                                     .all_reduce(sum.data_ptr(), sum.numel(), ElementType::int64, ReduceOperation::add,
                                                 std::make_shared<at::Tensor>(sum))});
}

void StepSums::finish_counts(const Instruction& i) {
  tape_.set_value(i.writes.front(), counts_.at(i.micro));
  counts_.erase(i.micro);
}

void StepSums::start_close(const Instruction& i) {
  close_.reset(close_layout_);
  const auto& f = close_fields_;
  const auto rank = size_of(parts_.world().rank());
  const auto& sums = measurements_.sums;
  const auto measured = at::stack({sums.cross_entropy, sums.balance, sums.z}).cpu();
  const auto* losses = measured.const_data_ptr<double>();
  for (const auto field : {f.cross_entropy, f.balance, f.z}) close_[field][0] = *losses++;
  close_[f.non_finite_layer][rank] = measurements_.first_non_finite() + 1;
  if (trains()) {
    auto parts = norm_parts(i);
    if (std::any_of(parts.begin(), parts.end(), [](double part) { return !std::isfinite(part); }))
      close_[f.non_finite_gradient][rank] = static_cast<double>(last_non_finite_gradient()) + 1;
    if (norms_are_maxima())
      *maxima_ = std::move(parts);
    else
      std::ranges::copy(parts, close_[f.norms].begin());
    if (!measurements_.load.empty()) {
      const auto load = at::stack(measurements_.load).cpu();
      std::copy_n(load.const_data_ptr<std::int64_t>(), load.numel(), close_[f.load].begin());
    }
  }
  start_reduce(i, close_.shared(), ReduceOperation::add);
  if (!maxima_->empty()) start_reduce(i, maxima_, ReduceOperation::max);
}

std::vector<double> StepSums::norm_parts(const Instruction& i) {
  const auto& groups = parts_.norm_groups;
  std::vector<optim::GroupedGradient> gradients;
  for (const auto& p : parts_.store.parameters()) {
    if (!p.is_primary) continue;
    const auto group = std::find(groups.begin(), groups.end(), p.placement.norm_group) - groups.begin();
    gradients.push_back({&p.gradient, static_cast<std::size_t>(group)});
  }
  const auto norm_type = parts_.options.norm_type;
  if (optim::is_scaled(norm_type)) {
    *scales_ = optim::norm_parts(gradients, groups.size(), std::numeric_limits<double>::infinity());
    start_reduce(i, scales_, ReduceOperation::max);
    travels_.end(i);
  }
  return optim::norm_parts(gradients, groups.size(), norm_type, *scales_);
}

// Backward runs from the head: the last one is the nearest to where it arose.
std::int64_t StepSums::last_non_finite_gradient() const {
  const auto& parameters = parts_.store.parameters();
  const auto norm_type = parts_.options.norm_type;
  const auto looks_at = optim::is_scaled(norm_type) ? std::numeric_limits<double>::infinity() : norm_type;
  for (std::size_t k = parameters.size(); k-- > 0;)
    if (!std::isfinite(optim::norm_part(parameters[k].gradient, looks_at))) return static_cast<std::int64_t>(k);
  return -1;
}

void StepSums::finish_close() {
  const auto& f = close_fields_;
  result_.cross_entropy = close_.number(f.cross_entropy) / static_cast<double>(result_.valid_tokens);
  result_.balance_loss = close_.number(f.balance);
  result_.z_loss = close_.number(f.z);
  if (trains()) {
    finish_norms();
    const auto load = std::as_const(close_)[f.load];
    const auto experts = parts_.counts.empty() ? 0 : load.size() / parts_.counts.size();
    result_.expert_load.resize(parts_.counts.size());
    for (std::size_t k = 0; k < load.size(); ++k) result_.expert_load[k / experts].push_back(std::llround(load[k]));
  }
  const auto& o = parts_.options;
  const auto total = result_.cross_entropy + o.balance_coef * result_.balance_loss + o.z_coef * result_.z_loss;
  if (std::isfinite(total) && std::isfinite(result_.grad_norm)) return;
  result_.outcome = Outcome::non_finite;
  result_.non_finite_where = non_finite_place(std::isfinite(total));
}

void StepSums::finish_norms() {
  const auto summed = close_[close_fields_.norms];
  const auto parts = norms_are_maxima() ? *maxima_ : std::vector<double>(summed.begin(), summed.end());
  const auto norms = optim::finish_norms(parts, parts_.options.norm_type, *scales_);
  result_.grad_norm = norms.total;
  for (std::size_t g = 0; g < parts_.norm_groups.size(); ++g)
    result_.group_norms[parts_.norm_groups[g]] = norms.groups[g];
}

std::string StepSums::non_finite_place(bool loss_is_finite) const {
  // The first layer on any rank, and the first rank of it.
  const auto layers = close_[close_fields_.non_finite_layer];
  std::int64_t layer = 0, rank = 0;
  for (std::size_t r = 0; r < layers.size(); ++r) {
    const auto first = std::llround(layers[r]);
    if (first == 0 || (layer > 0 && first >= layer)) continue;
    layer = first;
    rank = static_cast<std::int64_t>(r);
  }
  if (layer > 0)
    return fmt::format("the output of layer {}{}", layer - 1,
                       layers.size() > 1 ? fmt::format(" on rank {}", rank) : "");
  if (!loss_is_finite) return "the loss";
  const auto gradient = std::llround(std::ranges::max(close_[close_fields_.non_finite_gradient]));
  return gradient > 0 ? "the gradient of " + parts_.store.parameters()[size_of(gradient - 1)].placement.parameter.fqn
                      : "the gradient norm";
}

void StepSums::start_replicas(const Instruction& i) {
  // A parameter that several units use has one shard gradient: it is summed with the first of them.
  for (const auto index : parts_.store.home_parameters(size_of(i.target))) {
    auto& p = parts_.store.parameters()[index];
    const auto& group = parts_.mesh.communicator(p.placement.replicate_group);
    travels_.add(i.ticket, {p.placement.replicate_group,
                            group->all_reduce(p.gradient.data_ptr(), p.gradient.numel(),
                                              comm::element_type(p.gradient.scalar_type()), ReduceOperation::add,
                                              std::make_shared<at::Tensor>(p.gradient))});
  }
}

void StepSums::clip() {
  result_.clip_factor = result_.outcome == Outcome::non_finite
                            ? std::numeric_limits<double>::quiet_NaN()
                            : optim::clip_factor(result_.grad_norm, parts_.options.max_grad_norm);
}

void StepSums::update() {
  if (result_.outcome == Outcome::done) {
    base::expect(parts_.optimizer != nullptr, "an update without an optimizer");
    parts_.optimizer->step(inputs_.lr, result_.clip_factor);
  }
  parts_.store.zero_gradients();
}

}  // namespace tessera::executor

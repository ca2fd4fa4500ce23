#include "optim/optimizer.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"

namespace tessera::optim {
namespace {

void check_shards(const DecayGroups& groups, const std::vector<OptimizedShard>& shards) {
  std::set<std::string> seen;
  for (const OptimizedShard& shard : shards) {
    base::expect(groups.of.contains(shard.fqn), "{} is in no group of the optimizer", shard.fqn);
    base::expect(seen.insert(shard.fqn).second, "{} is given to the optimizer twice", shard.fqn);
    const at::Tensor &master = shard.master, &gradient = shard.gradient;
    base::expect(master.is_contiguous() && gradient.is_contiguous() && master.sizes() == gradient.sizes() &&
                     master.scalar_type() == gradient.scalar_type(),
                 "{}: master and gradient do not fit each other", shard.fqn);
    base::expect(master.scalar_type() == at::kFloat || master.scalar_type() == at::kDouble,
                 "{}: masters are float32 or float64, not {}", shard.fqn, c10::toString(master.scalar_type()));
  }
  for (const auto& [fqn, group] : groups.of)
    base::expect(seen.contains(fqn), "{} is not owned by the optimizer: it would never be trained", fqn);
}

at::Tensor scalar(double value, const at::Tensor& beside) {
  return at::full({}, value, beside.options().dtype(at::kFloat));
}

// Returns the divisor for the fused kernels, which divide gradients by a float32 scalar as they read them; nothing if
// the factor is 1. Where a float32 divisor does not do (for 0, or float64 gradients), multiplies the gradients itself.
std::optional<at::Tensor> apply_factor(double factor, const std::vector<at::Tensor>& gradients) {
  if (factor == 1.0 || gradients.empty()) return std::nullopt;
  if (factor != 0.0 && gradients.front().scalar_type() == at::kFloat) return scalar(1.0 / factor, gradients.front());
  for (const at::Tensor& gradient : gradients) gradient.mul_(factor);
  return std::nullopt;
}

}  // namespace

Optimizer::Optimizer(config::OptimizerSettings settings, const DecayGroups& groups, std::vector<OptimizedShard> shards)
    : settings_(std::move(settings)),
      shards_(std::move(shards)),
      first_moments_(shards_.size()),
      second_moments_(shards_.size()) {
  check_shards(groups, shards_);
  const bool adamw = settings_.type == config::OptimizerType::adamw;
  base::expect(!adamw || settings_.betas.size() == 2, "AdamW has two betas, not {}", settings_.betas.size());
  Group decayed{settings_.weight_decay, {}, {}, {}, {}}, others;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const OptimizedShard& shard = shards_[i];
    if (adamw || settings_.momentum != 0) first_moments_[i] = at::zeros_like(shard.master);
    if (adamw) second_moments_[i] = at::zeros_like(shard.master);
    if (shard.master.numel() == 0) continue;
    Group& group = groups.of.at(shard.fqn) == WeightDecay::applied ? decayed : others;
    group.masters.push_back(shard.master);
    group.gradients.push_back(shard.gradient);
    if (first_moments_[i].defined()) group.first_moments.push_back(first_moments_[i]);
    if (second_moments_[i].defined()) group.second_moments.push_back(second_moments_[i]);
  }
  for (Group* group : {&decayed, &others})
    if (!group->masters.empty()) groups_.push_back(std::move(*group));
}

void Optimizer::step(double lr, double gradient_factor) {
  base::expect(std::isfinite(gradient_factor), "the factor of the gradient is {}", gradient_factor);
  if (const auto wait = std::exchange(wait_, nullptr)) wait();
  ++steps_;
  for (Group& group : groups_) {
    const std::optional<at::Tensor> divisor = apply_factor(gradient_factor, group.gradients);
    if (settings_.type == config::OptimizerType::adamw)
      step_adamw(group, lr, divisor);
    else
      step_sgd(group, lr, divisor);
  }
}

void Optimizer::step_adamw(Group& group, double lr, const std::optional<at::Tensor>& divisor) {
  const std::vector<at::Tensor> steps(group.masters.size(), scalar(static_cast<double>(steps_), group.masters.front()));
  at::_fused_adamw_(group.masters, group.gradients, group.first_moments, group.second_moments, {}, steps, lr,
                    settings_.betas[0], settings_.betas[1], group.weight_decay, settings_.eps, false, false, divisor);
}

// The momentum buffer begins as zero, so the first step sets it to the gradient, as torch's first step does.
void Optimizer::step_sgd(Group& group, double lr, const std::optional<at::Tensor>& divisor) {
  at::_fused_sgd_(group.masters, group.gradients, group.first_moments, group.weight_decay, settings_.momentum, lr, 0.0,
                  false, false, false, divisor);
}

std::vector<StateTensor> Optimizer::state() const {
  const bool adamw = settings_.type == config::OptimizerType::adamw;
  std::vector<StateTensor> list;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (first_moments_[i].defined())
      list.push_back({shards_[i].fqn, adamw ? "exp_avg" : "momentum_buffer", first_moments_[i]});
    if (second_moments_[i].defined()) list.push_back({shards_[i].fqn, "exp_avg_sq", second_moments_[i]});
  }
  return list;
}

}  // namespace tessera::optim

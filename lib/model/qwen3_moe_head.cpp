// The head of Qwen3Moe: final norm, cross entropy, balance loss and router z-loss.
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "model/qwen3_moe_state.h"
#include "moe/balance.h"
#include "ops/chunked_cross_entropy.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace tessera::model {
namespace {

using architecture::Role;
using K = architecture::ValueKind;

// What the head reads of `kind`, layer by layer.
std::vector<at::Tensor> layers_of(const architecture::Step& head, const SegmentView& s, K kind) {
  std::vector<at::Tensor> list;
  for (const architecture::ValueId id : head.reads)
    if (id.kind == kind) list.push_back(s.at(id));
  return list;
}

at::Tensor balance_loss(config::BalanceLoss kind, const architecture::Step& head, const SegmentView& s,
                        double routed_tokens) {
  const auto probability = layers_of(head, s, K::router_probability);
  switch (kind) {
    case config::BalanceLoss::pooled: return moe::pooled_balance(probability, s.model(K::balance_count), routed_tokens);
    case config::BalanceLoss::per_layer:
      return moe::per_layer_balance(probability, s.model(K::balance_count), routed_tokens);
    case config::BalanceLoss::sequence:
      return moe::sequence_balance(probability, at::stack(layers_of(head, s, K::router_count)),
                                   s.model(K::sequence_starts));
  }
  base::expect(false, "balance loss {}", static_cast<int>(kind));
  return {};
}

// Adds coefficient * scale * share to `loss`; returns scale * share.
at::Tensor add_share(at::Tensor& loss, const at::Tensor& share, double scale, double coefficient) {
  if (coefficient != 0) loss = at::add(loss, at::mul(share, coefficient * scale).to(loss.scalar_type()));
  return share.detach().to(at::kDouble).mul(scale);
}

at::Tensor final_hidden(const architecture::Step& head, const SegmentView& s, double epsilon) {
  return ops::rms_norm(s.at(head.reads.front()), s.weight(Role::final_norm), epsilon);
}

}  // namespace

Values batch_values(at::Tensor ids, at::Tensor labels, at::Tensor positions,
                    const std::vector<std::int64_t>& attention_starts,
                    const std::vector<std::int64_t>& sequence_starts) {
  return {{{K::ids}, std::move(ids)},
          {{K::labels}, std::move(labels)},
          {{K::positions}, std::move(positions)},
          {{K::attention_starts}, at::tensor(attention_starts, at::kLong)},
          {{K::sequence_starts}, at::tensor(sequence_starts, at::kLong)}};
}

BatchCounts counts_of(const Values& batch) {
  const auto& labels = batch.at({K::labels});
  return {.valid_tokens = labels.ge(0).sum().item<std::int64_t>(),
          .tokens = labels.numel(),
          .sequences = batch.at({K::sequence_starts}).numel() - 1};
}

at::Tensor Qwen3Moe::State::set_starts(const at::Tensor& sequence_starts) const {
  if (balance == config::BalanceLoss::sequence) return sequence_starts;
  return at::tensor({std::int64_t{0}, sequence_starts[-1].item<std::int64_t>()});
}

HeadSums Qwen3Moe::run_head(const architecture::Step& step, Values& values, const Weights& weights,
                            const StepFacts& facts) const {
  base::expect(step.segment == architecture::SegmentKind::head, "{} is not the head", step.name());
  const architecture::ModelConfig& config = state_->config;
  const SegmentView s(step, values, weights);
  const at::Tensor hidden = final_hidden(step, s, config.rms_norm_eps);
  ops::CrossEntropy entropy =
      ops::chunked_cross_entropy(hidden, s.model(K::labels), s.weight(Role::head), facts.loss_scale);

  const at::Tensor none = at::zeros_like(entropy.sum);
  HeadSums sums{.loss = {}, .cross_entropy = entropy.sum, .balance = none, .z = none};
  at::Tensor loss = std::move(entropy.loss);
  if (config.moe_layers() > 0 && facts.balance_scale != 0) {
    const at::Tensor share = balance_loss(state_->balance, step, s, facts.routed_tokens);
    sums.balance = add_share(loss, share, facts.balance_scale, config.router_aux_loss_coef);
  }
  if (config.moe_layers() > 0 && facts.z_scale != 0) {
    const at::Tensor share = moe::router_z_loss(layers_of(step, s, K::router_z));
    sums.z = add_share(loss, share, facts.z_scale, state_->router_z_loss_coef);
  }
  sums.loss = loss;
  s.set({K::loss}, std::move(loss));
  return sums;
}

at::Tensor Qwen3Moe::logits(const architecture::Step& head, const Values& values, const Weights& weights) const {
  Values readable = values;
  const SegmentView s(head, readable, weights);
  const at::Tensor hidden = final_hidden(head, s, state_->config.rms_norm_eps);
  return ops::linear(hidden, s.weight(Role::head), nullptr, state_->numbers.wide);
}

}  // namespace tessera::model

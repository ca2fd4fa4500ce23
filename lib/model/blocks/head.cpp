#include "architecture/blocks/head.h"

#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "model/kernel.h"
#include "moe/balance.h"
#include "ops/chunked_cross_entropy.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace tessera::model {
namespace {

using architecture::ValueKind;

// What the head reads of `kind`, layer by layer.
std::vector<at::Tensor> layers_of(const SegmentView& s, ValueKind kind) {
  std::vector<at::Tensor> list;
  for (const architecture::ValueId id : s.step().reads)
    if (id.kind == kind) list.push_back(s.at(id));
  return list;
}

at::Tensor balance_loss(const SegmentView& s, const Context& c, double routed_tokens) {
  const auto probability = layers_of(s, ValueKind::router_probability);
  switch (c.balance) {
    case config::BalanceLoss::pooled:
      return moe::pooled_balance(probability, s.model(ValueKind::balance_count), routed_tokens);
    case config::BalanceLoss::per_layer:
      return moe::per_layer_balance(probability, s.model(ValueKind::balance_count), routed_tokens);
    case config::BalanceLoss::sequence:
      return moe::sequence_balance(probability, at::stack(layers_of(s, ValueKind::router_count)),
                                   s.model(ValueKind::sequence_starts));
  }
  base::expect(false, "balance loss {}", static_cast<int>(c.balance));
  return {};
}

// Adds coefficient * scale * share to `loss`; returns scale * share.
at::Tensor add_share(at::Tensor& loss, const at::Tensor& share, double scale, double coefficient) {
  if (coefficient != 0) loss = at::add(loss, at::mul(share, coefficient * scale).to(loss.scalar_type()));
  return share.detach().to(at::kDouble).mul(scale);
}

at::Tensor final_hidden(const SegmentView& s, const Context& c) {
  return ops::rms_norm(s.at(s.step().reads.front()), s.weight(architecture::head::norm), c.config.rms_norm_eps);
}

}  // namespace

HeadSums run_head(const SegmentView& s, const Context& c, const StepFacts& facts) {
  const at::Tensor hidden = final_hidden(s, c);
  ops::CrossEntropy entropy = ops::chunked_cross_entropy(hidden, s.model(ValueKind::labels),
                                                         s.weight(architecture::head::weight), facts.loss_scale);

  const at::Tensor none = at::zeros_like(entropy.sum);
  HeadSums sums{.loss = {}, .cross_entropy = entropy.sum, .balance = none, .z = none};
  at::Tensor loss = std::move(entropy.loss);
  if (c.config.moe_layers() > 0 && facts.balance_scale != 0) {
    const at::Tensor share = balance_loss(s, c, facts.routed_tokens);
    sums.balance = add_share(loss, share, facts.balance_scale, c.config.router_aux_loss_coef);
  }
  if (c.config.moe_layers() > 0 && facts.z_scale != 0) {
    const at::Tensor share = moe::router_z_loss(layers_of(s, ValueKind::router_z));
    sums.z = add_share(loss, share, facts.z_scale, c.router_z_loss_coef);
  }
  sums.loss = loss;
  s.set({ValueKind::loss}, std::move(loss));
  return sums;
}

at::Tensor logits_of(const SegmentView& s, const Context& c) {
  return ops::linear(final_hidden(s, c), s.weight(architecture::head::weight), nullptr, c.numbers.wide);
}

}  // namespace tessera::model

#include "architecture/blocks/router.h"

#include <ATen/ops/tensor.h>

#include <utility>

#include "model/kernel.h"
#include "moe/router.h"
#include "ops/rms_norm.h"

namespace tessera::model {
namespace {

using architecture::ValueKind;

// The sets of tokens over which the router's statistics are summed: the sequences, or one set of all tokens.
at::Tensor starts_of_sets(const SegmentView& s, const Context& c) {
  const at::Tensor& sequence_starts = s.model(ValueKind::sequence_starts);
  if (c.balance == config::BalanceLoss::sequence) return sequence_starts;
  return at::tensor({std::int64_t{0}, sequence_starts[-1].item<std::int64_t>()});
}

moe::Slots slots_of(const SegmentView& s) {
  return {s[ValueKind::slot_token], s[ValueKind::slot_choice], s[ValueKind::slot_count]};
}

void route(const SegmentView& s, const Context& context) {
  const auto& c = context.config;
  const auto set_starts = starts_of_sets(s, context);
  auto [residual, normed] = ops::add_rms_norm(s[ValueKind::hidden], s[ValueKind::attention_output],
                                              s.weight(architecture::router::norm), c.rms_norm_eps);
  const moe::RouterOutput output = moe::route(normed, s.weight(architecture::router::weight));
  if (!s.has(ValueKind::slot_token)) {
    moe::Slots chosen = moe::choose_top_k(output.probability.detach(), c.num_experts_per_tok);
    s.set(ValueKind::slot_token, std::move(chosen.token));
    s.set(ValueKind::slot_choice, std::move(chosen.choice));
    s.set(ValueKind::slot_count, std::move(chosen.expert_count));
  }
  const moe::Slots slots = slots_of(s);
  moe::RouterStatistics statistics = moe::router_statistics(output, slots, set_starts);
  s.set(ValueKind::slot_weight,
        moe::slot_weight(output.probability, slots,
                         c.norm_topk_prob ? moe::Renormalise::over_own_slots : moe::Renormalise::no));
  s.set(ValueKind::residual, std::move(residual));
  s.set(ValueKind::normed, std::move(normed));
  s.set(ValueKind::router_probability, std::move(statistics.probability));
  if (!s.has(ValueKind::router_count)) s.set(ValueKind::router_count, std::move(statistics.count));
  s.set(ValueKind::router_z, std::move(statistics.z));
}

}  // namespace

std::span<const Kernel> router_kernels() {
  namespace block = architecture::router;
  static constexpr Kernel kernels[]{{block::route, route}};
  return kernels;
}

}  // namespace tessera::model

#include "architecture/blocks/experts.h"

#include <utility>

#include "model/kernel.h"
#include "moe/experts.h"
#include "moe/pack.h"
#include "moe/router.h"
#include "moe/token_merge.h"

namespace tessera::model {
namespace {

using architecture::ValueKind;

// Top-k routes every token: a single owner gets all of them.
moe::Rows rows_of(const OwnedBlocks& experts) {
  return experts.bounds.size() == 2 ? moe::Rows::all_tokens : moe::Rows::any;
}

void pack(const SegmentView& s, const Context& c) {
  const auto& experts = c.owners_of(s.step());
  const at::Tensor& normed = s[ValueKind::normed];
  if (!s.has(ValueKind::row_token)) {
    const moe::Slots slots{s[ValueKind::slot_token], at::Tensor(), s[ValueKind::slot_count]};
    moe::SendPlan plan = moe::plan_send(slots, normed.size(0), experts.bounds, moe::Routed::every_token);
    s.set(ValueKind::expert_count, std::move(plan.expert_count));
    s.set(ValueKind::row_token, std::move(plan.row_token));
    s.set(ValueKind::row_count, std::move(plan.row_count));
    s.set(ValueKind::send_slot, std::move(plan.send_slot));
  }
  s.set(ValueKind::send_rows, moe::send_rows(normed, s[ValueKind::row_token], rows_of(experts)));
  const at::Tensor& slot_weight = s[ValueKind::slot_weight];
  s.set(ValueKind::send_weight, slot_weight.view_as(slot_weight));  // a tensor of its own: the input stays a leaf
}

void run_experts(const SegmentView& s, const Context& c) {
  using Use = architecture::ExpertMatrix::Use;
  const auto& body = *s.step().body;
  moe::ExpertWeights weights;
  for (const auto& matrix : body.matrices) {
    device::Weight* const weight = &s.weight(matrix.name);
    switch (matrix.use) {
      case Use::into: weights.into.push_back(weight); break;
      case Use::into_bias: weights.into_bias.push_back(weight); break;
      case Use::out: weights.out = weight; break;
      case Use::out_bias: weights.out_bias = weight; break;
    }
  }
  const moe::ExpertOrder order =
      moe::order_by_expert(s[ValueKind::slot], s[ValueKind::source_row_count], s[ValueKind::source_expert_count]);
  s.set(ValueKind::expert_rows,
        moe::run_experts(s[ValueKind::rows], s[ValueKind::weight], order, weights, c.function_of(body), c.expert_path));
}

void merge(const SegmentView& s, const Context& c) {
  const auto& experts = c.owners_of(s.step());
  s.set_next(ValueKind::hidden, moe::merge(s[ValueKind::residual], s[ValueKind::combined_rows], s[ValueKind::row_token],
                                           rows_of(experts)));
}

}  // namespace

std::span<const Kernel> experts_kernels() {
  namespace block = architecture::experts;
  static constexpr Kernel kernels[]{{block::pack, pack}, {block::experts, run_experts}, {block::merge, merge}};
  return kernels;
}

}  // namespace tessera::model

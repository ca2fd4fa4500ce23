#include "moe/pack_gpu.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "moe/number_by_count.h"
#include "moe/slot_sum_gpu.h"
#include "ops/upload.h"

namespace tessera::moe::gpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct SendRows : Function<SendRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& normed, const at::Tensor& row_token) {
    context->save_for_backward({row_token});
    context->saved_data["tokens"] = normed.size(0);
    return at::index_select(normed, 0, row_token);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& gradient = gradients[0];
    const auto by_token = slots_by_row(context->get_saved_variables()[0], context->saved_data["tokens"].toInt());
    return {sum_slots(gradient, by_token, gradient.scalar_type()), {}};
  }
};

}  // namespace

SendPlan plan_send(const Slots& slots, std::int64_t tokens, std::span<const std::int64_t> bounds, Routed routed) {
  const auto owners = std::ssize(bounds) - 1;
  const auto& integers = slots.token.options();
  if (owners == 1 && routed == Routed::every_token)
    return {at::arange(tokens, integers), at::full({1}, tokens, at::TensorOptions(at::kLong)), slots.token,
            slots.expert_count};
  // A slot's owner is the last one whose first expert is not above the slot's: owners without experts are passed over.
  const auto experts = slots.expert_count.numel();
  const auto first = ops::upload(bounds.first(bounds.size() - 1), slots.token.device());
  const auto expert = number_by_count(slots.expert_count, slots.token.numel());
  const auto owner = at::searchsorted(first, expert, /*out_int32=*/false, /*right=*/true).sub_(1);
  const auto of_slot = owner.mul(tokens).add_(slots.token);
  // [owners, tokens] bool: the owner has an expert of the token.
  const auto wanted =
      at::zeros({owners * tokens}, integers.dtype(at::kBool)).index_fill_(0, of_slot, true).view({owners, tokens});
  const auto row_count = wanted.sum(1), first_row = row_count.cumsum(0).sub_(row_count);
  // Rows in the order (owner, token). Only the GPU knows yet how many there are, so there is room for all pairs, and
  // one place more for the unwanted ones.
  const auto row = wanted.flatten().cumsum(0).sub_(1);
  const auto place = at::where(wanted.flatten(), row, at::full({}, owners * tokens, row.options()));
  const auto row_token =
      at::empty({owners * tokens + 1}, integers).scatter_(0, place, at::arange(tokens, integers).repeat({owners}));
  auto send_slot = at::index_select(row, 0, of_slot).sub_(at::index_select(first_row, 0, owner));
  const auto counts = at::cat({row_count, slots.expert_count}).cpu();  // the host waits, after all else was launched
  SendPlan plan{{}, counts.narrow(0, 0, owners), std::move(send_slot), counts.narrow(0, owners, experts)};
  plan.row_token = row_token.narrow(0, 0, plan.row_count.sum().item<std::int64_t>());
  return plan;
}

at::Tensor send_rows(const at::Tensor& normed, const at::Tensor& row_token) {
  return SendRows::apply(normed, row_token);
}

}  // namespace tessera::moe::gpu

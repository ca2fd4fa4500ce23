#include "moe/router.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/square.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "base/error.h"
#include "ops/float_types.h"
#include "ops/linear.h"
#include "ops/upload.h"
#include "ops/wide_type.h"

namespace tessera::moe {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Sums over each token's slots. On a GPU index_add_ would add in any order; so there each slot is written to its own
// place in a matrix [tokens, experts], whose row sums are the same every time.
at::Tensor sums_of_tokens(const at::Tensor& per_slot, const at::Tensor& token, const at::Tensor& choice,
                          std::int64_t tokens, std::int64_t experts) {
  if (per_slot.is_cpu()) return at::zeros({tokens}, per_slot.options()).index_add_(0, token, per_slot);
  return at::zeros({tokens * experts}, per_slot.options())
      .index_copy_(0, choice, per_slot)
      .view({tokens, experts})
      .sum(1);
}

// w_s = p[choice_s], divided by r_t, the sum of the token's w, if renormalised.
struct SlotWeight : Function<SlotWeight> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& probability, const at::Tensor& token,
                            const at::Tensor& choice, Renormalise renormalise) {
    auto weight = at::index_select(probability.reshape({-1}), 0, choice);
    at::Tensor sum;
    if (renormalise == Renormalise::over_own_slots) {
      sum = sums_of_tokens(weight, token, choice, probability.size(0), probability.size(1));
      weight.div_(at::index_select(sum, 0, token));
    }
    context->save_for_backward({token, choice, weight, sum});
    context->saved_data["sizes"] = probability.sizes();
    return weight;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &token = saved[0], &choice = saved[1], &weight = saved[2], &sum = saved[3];
    const auto sizes = context->saved_data["sizes"].toIntVector();
    auto d = gradients[0];
    if (sum.defined()) {
      // d w_s = (d_s - sum over the token's slots of d * weight) / r_t
      const auto inner = sums_of_tokens(d.mul(weight), token, choice, sizes[0], sizes[1]);
      d = d.sub(at::index_select(inner, 0, token)).div_(at::index_select(sum, 0, token));
    }
    auto result = at::zeros({sizes[0] * sizes[1]}, weight.options());
    result.index_add_(0, choice, d);
    return {result.view(sizes), {}, {}, {}};
  }
};

// Sums over ranges of rows.
struct SetSum : Function<SetSum> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& set_starts,
                            const at::Tensor& set_of_token) {
    const auto* start = set_starts.const_data_ptr<std::int64_t>();
    const auto sets = set_starts.numel() - 1;
    auto result = at::empty({sets, rows.size(1)}, rows.options().requires_grad(false));
    for (std::int64_t set = 0; set < sets; ++set)
      result.select(0, set).copy_(rows.narrow(0, start[set], start[set + 1] - start[set]).sum(0));
    context->save_for_backward({set_of_token});
    return result;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {at::index_select(gradients[0], 0, context->get_saved_variables()[0]), {}, {}};
  }
};

at::Tensor set_of_each_token(const at::Tensor& set_starts, std::int64_t tokens, at::Device device) {
  const auto* start = set_starts.const_data_ptr<std::int64_t>();
  const auto count = set_starts.numel();
  base::expect(count > 0 && start[0] == 0 && start[count - 1] == tokens && std::is_sorted(start, start + count),
               "router_statistics: set_starts do not ascend from 0 to {}", tokens);
  if (count == 2) return at::zeros({tokens}, set_starts.options().device(device));
  auto result = at::empty({tokens}, set_starts.options());
  auto* data = result.mutable_data_ptr<std::int64_t>();
  for (std::int64_t set = 0; set + 1 < count; ++set) std::fill(data + start[set], data + start[set + 1], set);
  return ops::upload(result, device);
}

}  // namespace

RouterOutput route(const at::Tensor& normed, device::Weight& router) {
  const auto logits = ops::linear(normed, router, nullptr, ops::wide_type(normed.scalar_type()));
  return {at::softmax(logits, 1), at::logsumexp(logits, {1})};
}

at::Tensor slot_weight(const at::Tensor& probability, const Slots& slots, Renormalise renormalise) {
  base::expect(probability.dim() == 2 && slots.token.sizes() == slots.choice.sizes(),
               "slot_weight: probability [tokens, experts] and slots do not fit");
  return SlotWeight::apply(probability, slots.token, slots.choice, renormalise);
}

RouterStatistics router_statistics(const RouterOutput& output, const Slots& slots, const at::Tensor& set_starts) {
  const auto experts = output.probability.size(1);
  const auto tokens = output.probability.size(0), sets = set_starts.numel() - 1;
  const auto set_of_token = set_of_each_token(set_starts, tokens, output.probability.device());
  RouterStatistics result;
  result.probability = SetSum::apply(output.probability, set_starts, set_of_token);
  result.z = at::square(output.logsumexp).sum();
  if (sets == 1) {
    result.count = slots.expert_count.unsqueeze(0);
    return result;
  }
  const auto expert = slots.choice.remainder(experts);
  const auto place = at::index_select(set_of_token, 0, slots.token).mul_(experts).add_(expert);
  result.count = at::zeros({sets * experts}, slots.token.options())
                     .index_add_(0, place, at::ones(place.sizes(), place.options()))
                     .view({sets, experts});
  return result;
}

}  // namespace tessera::moe

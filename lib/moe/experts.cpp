#include "moe/experts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "moe/experts_pass.h"
#include "ops/grouped_rows.h"
#include "ops/product.h"
#include "ops/rows.h"
#include "ops/upload.h"
#include "ops/weight_access.h"
#include "ops/wide_type.h"

namespace tessera::moe {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Slots that one expert takes at once: its rows and activations stay in cache.
constexpr std::int64_t slots_at_once = 512;

// A run of slots of one expert.
struct Span {
  std::int64_t expert, first, count;
  [[nodiscard]] at::Tensor of(const at::Tensor& per_slot) const { return per_slot.narrow(0, first, count); }
};

std::vector<Span> spans_of(const at::Tensor& counts) {
  std::vector<Span> spans;
  ops::for_groups(counts, [&](std::int64_t expert, std::int64_t first, std::int64_t count) {
    for (std::int64_t done = 0; done < count; done += slots_at_once)
      spans.push_back({expert, first + done, std::min(slots_at_once, count - done)});
  });
  return spans;
}

at::Tensor in_slot_order(const at::Tensor& received, const at::Tensor& slot) {
  return slot.defined() ? at::index_select(received, 0, slot) : received.contiguous();
}

std::int64_t longest(const std::vector<Span>& spans) {
  std::int64_t result = 0;
  for (const auto& span : spans) result = std::max(result, span.count);
  return result;
}

at::Tensor value_of(const device::Weight* weight, const Span& span) {
  return ops::bound_value(*weight).select(0, span.expert);
}

at::Tensor gradient_of(const device::Weight* weight, const Span& span) {
  return ops::bound_gradient(*weight).select(0, span.expert);
}

// Runs expert by expert: on the CPU with GroupedPath::per_group.
ForwardResult forward_by_expert(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                                const ExpertWeights& weights, const ExpertFunction& function, Keep keep) {
  const auto hidden = rows.size(1), inner = weights.out->value().size(2), slots = order.row.numel();
  const auto spans = spans_of(order.count);
  const auto kept_slots = keep == Keep::for_backward ? slots : longest(spans);
  const auto wide = rows.options().dtype(ops::wide_type(rows.scalar_type())).requires_grad(false);
  const auto narrow = wide.dtype(rows.scalar_type());
  ForwardResult result{at::zeros(rows.sizes(), wide), {}, {}};
  for (std::size_t k = 0; k < function.inputs; ++k) result.inputs.push_back(at::empty({kept_slots, inner}, narrow));
  const auto in = at::empty({longest(spans), hidden}, narrow), out = at::empty({longest(spans), hidden}, wide),
             activation = at::empty({longest(spans), inner}, narrow);
  std::vector<at::Tensor> inputs(function.inputs);
  for (const auto& span : spans) {
    const auto kept_first = keep == Keep::for_backward ? span.first : 0;
    auto x = in.narrow(0, 0, span.count);
    const auto a = activation.narrow(0, 0, span.count);
    auto y = out.narrow(0, 0, span.count);
    at::index_select_out(x, rows, 0, span.of(order.row));
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      inputs[k] = result.inputs[k].narrow(0, kept_first, span.count);
      ops::product_into(inputs[k], x, value_of(weights.into[k], span));
      if (!weights.into_bias.empty()) inputs[k].add_(value_of(weights.into_bias[k], span));
    }
    function.forward(inputs, span.of(weight), a);
    ops::product_into(y, a, value_of(weights.out, span));
    if (weights.out_bias != nullptr)
      y.addcmul_(span.of(weight).unsqueeze(1), value_of(weights.out_bias, span).to(y.scalar_type()));
    ops::add_rows(result.rows, span.of(order.row), y);
  }
  result.rows = result.rows.to(rows.scalar_type());
  return result;
}

// Adds the gradients of the biases of one expert, and what its out bias gives to the gradients of the slots' weights.
void add_bias_gradients(const Span& span, const ExpertWeights& weights, const at::Tensor& weight, const at::Tensor& d_y,
                        const FunctionGradient& d) {
  for (std::size_t k = 0; k < weights.into_bias.size(); ++k) {
    auto gradient = gradient_of(weights.into_bias[k], span);
    gradient.add_(at::sum(d.d_inputs[k], {0}, false, gradient.scalar_type()));
  }
  if (weights.out_bias == nullptr) return;
  const auto wide_d = d_y.to(weight.scalar_type());
  gradient_of(weights.out_bias, span).add_(at::mv(wide_d.t(), weight));
  at::Tensor d_weight = d.d_weight;
  d_weight.add_(at::mv(wide_d, value_of(weights.out_bias, span).to(weight.scalar_type())));
}

BackwardResult backward_by_expert(const BackwardInputs& in, const ExpertWeights& weights,
                                  const ExpertFunction& function) {
  const auto hidden = in.rows.size(1), inner = weights.out->value().size(2), slots = in.row.numel();
  const auto spans = spans_of(in.count);
  const auto most = longest(spans);
  const auto wide = in.rows.options().dtype(ops::wide_type(in.rows.scalar_type())).requires_grad(false);
  BackwardResult result{at::zeros(in.rows.sizes(), wide), at::empty({slots}, wide)};
  const auto x_memory = at::empty({most, hidden}, wide.dtype(in.rows.scalar_type())),
             d_y_memory = at::empty({most, hidden}, wide.dtype(in.d_result.scalar_type())),
             d_x_memory = at::empty({most, hidden}, wide);
  const auto inner_memory = at::empty({static_cast<std::int64_t>(function.inputs) + 2, most, inner}, wide);
  std::vector<at::Tensor> inputs(function.inputs);
  FunctionGradient d{std::vector<at::Tensor>(function.inputs), {}, {}};
  for (const auto& span : spans) {
    const auto slice = [&](std::size_t i) {
      return inner_memory.select(0, static_cast<std::int64_t>(i)).narrow(0, 0, span.count);
    };
    auto x = x_memory.narrow(0, 0, span.count), d_y = d_y_memory.narrow(0, 0, span.count);
    const auto d_x = d_x_memory.narrow(0, 0, span.count), d_a = slice(0);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      inputs[k] = span.of(in.inputs[k]);
      d.d_inputs[k] = slice(2 + k);
    }
    d.activation = slice(1);
    d.d_weight = span.of(result.d_weight);
    at::index_select_out(x, in.rows, 0, span.of(in.row));
    at::index_select_out(d_y, in.d_result, 0, span.of(in.row));
    ops::multiply_back_out(d_a, d_y, value_of(weights.out, span), ops::Into::overwrite);
    function.backward(inputs, span.of(in.weight), d_a, d);
    ops::add_outer_product(gradient_of(weights.out, span), d_y, d.activation);
    add_bias_gradients(span, weights, span.of(in.weight), d_y, d);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      ops::add_outer_product(gradient_of(weights.into[k], span), d.d_inputs[k], x);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      ops::multiply_back_out(d_x, d.d_inputs[k], value_of(weights.into[k], span),
                             k == 0 ? ops::Into::overwrite : ops::Into::add);
    ops::add_rows(result.d_rows, span.of(in.row), d_x);
  }
  return result;
}

bool goes_by_expert(const at::Tensor& rows, ops::GroupedPath path) {
  return rows.is_cpu() && path == ops::GroupedPath::per_group;
}

// All of them, those that are null included, in the order in which the graph saves them.
std::vector<device::Weight*> list_of(const ExpertWeights& weights) {
  std::vector<device::Weight*> list{weights.out, weights.out_bias};
  list.insert(list.end(), weights.into.begin(), weights.into.end());
  list.insert(list.end(), weights.into_bias.begin(), weights.into_bias.end());
  return list;
}

struct RunExperts : Function<RunExperts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& weight,
                            [[maybe_unused]] const at::Tensor& anchor, const ExpertOrder& order,
                            const ExpertWeights& weights, const ExpertFunction* function, ops::GroupedPath path,
                            Keep keep) {
    const auto ordered = in_slot_order(weight.detach(), order.slot);
    const auto result = goes_by_expert(rows, path)
                            ? forward_by_expert(rows.detach(), ordered, order, weights, *function, keep)
                            : forward_at_once(rows.detach(), ordered, order, weights, *function, path, keep);
    if (keep == Keep::nothing) return result.rows;
    variable_list saved{rows, weight, order.row, order.slot, order.count, result.by_row.slot, result.by_row.first};
    saved.insert(saved.end(), result.inputs.begin(), result.inputs.end());
    context->save_for_backward(std::move(saved));
    c10::List<std::int64_t> pointers;
    for (const auto* pointer : list_of(weights)) pointers.push_back(ops::as_saved(pointer).toInt());
    context->saved_data["weights"] = pointers;
    context->saved_data["function"] = static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(function));
    context->saved_data["path"] = static_cast<std::int64_t>(path);
    return result.rows;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &rows = saved[0], &slot = saved[3];
    auto& data = context->saved_data;
    const auto& function =
        *reinterpret_cast<const ExpertFunction*>(static_cast<std::intptr_t>(data["function"].toInt()));
    const auto path = static_cast<ops::GroupedPath>(data["path"].toInt());
    ExpertWeights weights;
    std::vector<device::Weight*> list;
    for (const auto pointer : data["weights"].toIntVector())
      list.push_back(const_cast<device::Weight*>(ops::saved_weight(pointer)));
    weights.out = list[0];
    weights.out_bias = list[1];
    const auto biases = list.begin() + 2 + static_cast<std::ptrdiff_t>(function.inputs);
    weights.into.assign(list.begin() + 2, biases);
    weights.into_bias.assign(biases, list.end());
    const BackwardInputs in{rows.detach(),
                            in_slot_order(saved[1].detach(), slot),
                            saved[2],
                            saved[4],
                            {saved.begin() + 7, saved.end()},
                            {saved[5], saved[6]},
                            gradients[0].contiguous()};
    const auto result = goes_by_expert(rows, path) ? backward_by_expert(in, weights, function)
                                                   : backward_at_once(in, weights, function, path);
    auto d_weight = result.d_weight;
    if (slot.defined()) d_weight = at::empty_like(d_weight).index_copy_(0, slot, result.d_weight);
    return {result.d_rows.to(rows.scalar_type()), d_weight, {}, {}, {}, {}, {}, {}};
  }
};

void check(const at::Tensor& rows, const ExpertOrder& order, const ExpertWeights& weights,
           const ExpertFunction& function) {
  base::expect(weights.out != nullptr && weights.into.size() == function.inputs &&
                   (weights.into_bias.empty() || weights.into_bias.size() == function.inputs),
               "run_experts: {} takes {} weights, not {}", function.name, function.inputs, weights.into.size());
  const auto& out = weights.out->value();
  const auto experts = order.count.numel(), hidden = rows.size(1), inner = out.dim() == 3 ? out.size(2) : 0;
  const auto is = [](const device::Weight* w, at::IntArrayRef shape) {
    return w != nullptr && w->value().sizes() == shape;
  };
  bool fits = rows.dim() == 2 && is(weights.out, {experts, hidden, inner}) &&
              (weights.out_bias == nullptr || is(weights.out_bias, {experts, hidden}));
  for (const auto* w : weights.into) fits = fits && is(w, {experts, inner, hidden});
  for (const auto* w : weights.into_bias) fits = fits && is(w, {experts, inner});
  base::expect(fits, "run_experts: rows [rows, hidden] and experts into [E, I, hidden], out [E, hidden, I] do not fit");
}

}  // namespace

at::Tensor run_experts(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                       const ExpertWeights& weights, const ExpertFunction& function, ops::GroupedPath path) {
  check(rows, order, weights, function);
  base::expect(weight.numel() == order.row.numel() && weight.scalar_type() == ops::wide_type(rows.scalar_type()),
               "run_experts: not one wide weight for each slot");
  const auto keep = at::GradMode::is_enabled() ? Keep::for_backward : Keep::nothing;
  auto known = order;
  // Moves the counts to where the products need them, once rather than in each product.
  if (path == ops::GroupedPath::per_group)
    known.count = order.count.cpu();
  else if (order.count.is_cpu())
    known.count = ops::upload(order.count, rows.device());
  return RunExperts::apply(rows, weight, weights.out->anchor(), known, weights, &function, path, keep);
}

}  // namespace tessera::moe

#include "moe/experts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "moe/activation.h"
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

// Runs expert by expert: on the CPU with GroupedPath::per_group.
ForwardResult forward_by_expert(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                                const ExpertWeights& weights, Keep keep) {
  const auto &gate = ops::bound_value(*weights.gate), &up = ops::bound_value(*weights.up),
             &down = ops::bound_value(*weights.down);
  const auto hidden = rows.size(1), inner = gate.size(1), slots = order.row.numel();
  const auto spans = spans_of(order.count);
  const auto kept_slots = keep == Keep::for_backward ? slots : longest(spans);
  const auto wide = rows.options().dtype(ops::wide_type(rows.scalar_type())).requires_grad(false);
  const auto narrow = wide.dtype(rows.scalar_type());
  ForwardResult result{at::zeros(rows.sizes(), wide), at::empty({kept_slots, inner}, narrow),
                       at::empty({kept_slots, inner}, narrow)};
  const auto in = at::empty({longest(spans), hidden}, narrow), out = at::empty({longest(spans), hidden}, wide),
             activation = at::empty({longest(spans), inner}, narrow);
  for (const auto& span : spans) {
    const auto kept_first = keep == Keep::for_backward ? span.first : 0;
    const auto g = result.gate.narrow(0, kept_first, span.count), u = result.up.narrow(0, kept_first, span.count);
    auto x = in.narrow(0, 0, span.count);
    const auto a = activation.narrow(0, 0, span.count), y = out.narrow(0, 0, span.count);
    at::index_select_out(x, rows, 0, span.of(order.row));
    ops::product_into(g, x, gate.select(0, span.expert));
    ops::product_into(u, x, up.select(0, span.expert));
    activate(g, u, span.of(weight), a);
    ops::product_into(y, a, down.select(0, span.expert));
    ops::add_rows(result.rows, span.of(order.row), y);
  }
  result.rows = result.rows.to(rows.scalar_type());
  return result;
}

BackwardResult backward_by_expert(const BackwardInputs& in, const ExpertWeights& weights) {
  const auto value = [](const device::Weight& w, const Span& span) {
    return ops::bound_value(w).select(0, span.expert);
  };
  const auto gradient = [](const device::Weight& w, const Span& span) {
    return ops::bound_gradient(w).select(0, span.expert);
  };
  const auto hidden = in.rows.size(1), inner = in.gate.size(1), slots = in.row.numel();
  const auto spans = spans_of(in.count);
  const auto most = longest(spans);
  const auto wide = in.rows.options().dtype(ops::wide_type(in.rows.scalar_type())).requires_grad(false);
  BackwardResult result{at::zeros(in.rows.sizes(), wide), at::empty({slots}, wide)};
  const auto x_memory = at::empty({most, hidden}, wide.dtype(in.rows.scalar_type())),
             d_y_memory = at::empty({most, hidden}, wide.dtype(in.d_result.scalar_type())),
             d_x_memory = at::empty({most, hidden}, wide);
  const auto inner_memory = at::empty({4, most, inner}, wide);
  for (const auto& span : spans) {
    const auto slice = [&](std::int64_t i) { return inner_memory.select(0, i).narrow(0, 0, span.count); };
    auto x = x_memory.narrow(0, 0, span.count), d_y = d_y_memory.narrow(0, 0, span.count);
    const auto d_x = d_x_memory.narrow(0, 0, span.count), d_a = slice(0);
    const ActivationGradient d{slice(1), slice(2), slice(3), span.of(result.d_weight)};
    at::index_select_out(x, in.rows, 0, span.of(in.row));
    at::index_select_out(d_y, in.d_result, 0, span.of(in.row));
    ops::multiply_back_out(d_a, d_y, value(*weights.down, span), ops::Into::overwrite);
    activate_back(span.of(in.gate), span.of(in.up), span.of(in.weight), d_a, d);
    ops::add_outer_product(gradient(*weights.down, span), d_y, d.activation);
    ops::add_outer_product(gradient(*weights.gate, span), d.d_gate, x);
    ops::add_outer_product(gradient(*weights.up, span), d.d_up, x);
    ops::multiply_back_out(d_x, d.d_gate, value(*weights.gate, span), ops::Into::overwrite);
    ops::multiply_back_out(d_x, d.d_up, value(*weights.up, span), ops::Into::add);
    ops::add_rows(result.d_rows, span.of(in.row), d_x);
  }
  return result;
}

bool goes_by_expert(const at::Tensor& rows, ops::GroupedPath path) {
  return rows.is_cpu() && path == ops::GroupedPath::per_group;
}

struct RunExperts : Function<RunExperts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& weight,
                            [[maybe_unused]] const at::Tensor& anchor, const ExpertOrder& order,
                            const ExpertWeights& weights, ops::GroupedPath path, Keep keep) {
    const auto ordered = in_slot_order(weight.detach(), order.slot);
    const auto result = goes_by_expert(rows, path)
                            ? forward_by_expert(rows.detach(), ordered, order, weights, keep)
                            : forward_at_once(rows.detach(), ordered, order, weights, path, keep);
    if (keep == Keep::nothing) return result.rows;
    context->save_for_backward({rows, weight, order.row, order.slot, order.count, result.gate, result.up,
                                result.by_row.slot, result.by_row.first});
    context->saved_data["gate"] = ops::as_saved(weights.gate);
    context->saved_data["up"] = ops::as_saved(weights.up);
    context->saved_data["down"] = ops::as_saved(weights.down);
    context->saved_data["path"] = static_cast<std::int64_t>(path);
    return result.rows;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &rows = saved[0], &slot = saved[3];
    auto& data = context->saved_data;
    const auto weight = [&](const char* name) { return const_cast<device::Weight*>(ops::saved_weight(data[name])); };
    const auto path = static_cast<ops::GroupedPath>(data["path"].toInt());
    const BackwardInputs in{rows.detach(),
                            in_slot_order(saved[1].detach(), slot),
                            saved[2],
                            saved[4],
                            saved[5],
                            saved[6],
                            {saved[7], saved[8]},
                            gradients[0].contiguous()};
    const ExpertWeights weights{weight("gate"), weight("up"), weight("down")};
    const auto result =
        goes_by_expert(rows, path) ? backward_by_expert(in, weights) : backward_at_once(in, weights, path);
    auto d_weight = result.d_weight;
    if (slot.defined()) d_weight = at::empty_like(d_weight).index_copy_(0, slot, result.d_weight);
    return {result.d_rows.to(rows.scalar_type()), d_weight, {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor run_experts(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                       const ExpertWeights& weights, ops::GroupedPath path) {
  base::expect(weights.gate != nullptr && weights.up != nullptr && weights.down != nullptr,
               "run_experts: a weight is missing");
  const auto& gate = weights.gate->value();
  base::expect(rows.dim() == 2 && gate.dim() == 3 && gate.size(2) == rows.size(1) &&
                   weights.up->value().sizes() == gate.sizes() && order.count.numel() == gate.size(0) &&
                   weights.down->value().sizes() == at::IntArrayRef({gate.size(0), gate.size(2), gate.size(1)}),
               "run_experts: rows [rows, hidden] and experts gate, up [E, I, hidden], down [E, hidden, I] do not fit");
  base::expect(weight.numel() == order.row.numel() && weight.scalar_type() == ops::wide_type(rows.scalar_type()),
               "run_experts: not one wide weight for each slot");
  const auto keep = at::GradMode::is_enabled() ? Keep::for_backward : Keep::nothing;
  auto known = order;
  // Moves the counts to where the products need them, once rather than in each product.
  if (path == ops::GroupedPath::per_group)
    known.count = order.count.cpu();
  else if (order.count.is_cpu())
    known.count = ops::upload(order.count, rows.device());
  return RunExperts::apply(rows, weight, weights.gate->anchor(), known, weights, path, keep);
}

}  // namespace tessera::moe

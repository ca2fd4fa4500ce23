#include "ops/linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>

#include "ops/product.h"
#include "ops/weight_access.h"
#include "ops/wide_type.h"

namespace tessera::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

void add_bias(const at::Tensor& result, const device::Weight* bias) {
  if (bias == nullptr) return;
  at::Tensor out = result;
  out.add_(bound_value(*bias));
}

void add_bias_gradient(const device::Weight* bias, const at::Tensor& d) {
  if (bias == nullptr) return;
  at::Tensor gradient = bound_gradient(*bias);
  gradient.add_(at::sum(d, {0}, false, gradient.scalar_type()));
}

struct Linear : Function<Linear> {
  static variable_list forward(AutogradContext* context, const at::Tensor& input,
                               [[maybe_unused]] const at::Tensor& anchors, const std::vector<LinearWeight>& weights,
                               at::ScalarType result_type) {
    variable_list results;
    c10::List<std::int64_t> pointers;
    for (const auto& [weight, bias] : weights) {
      const auto& matrix = bound_value(*weight);
      auto result = at::empty({input.size(0), matrix.size(0)}, input.options().dtype(result_type));
      product_into(result, input, matrix);
      add_bias(result, bias);
      results.push_back(std::move(result));
      pointers.push_back(as_saved(weight).toInt());
      pointers.push_back(as_saved(bias).toInt());
    }
    context->saved_data["weights"] = pointers;
    context->save_for_backward({input});
    context->set_materialize_grads(false);
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto input = context->get_saved_variables()[0];
    const auto pointers = context->saved_data["weights"].toIntVector();
    at::Tensor input_gradient;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto& d = gradients[i];
      if (!d.defined()) continue;
      const auto* weight = saved_weight(pointers[2 * i]);
      add_outer_product(bound_gradient(*weight), d, input);
      add_bias_gradient(saved_weight(pointers[2 * i + 1]), d);
      if (!context->needs_input_grad(0)) continue;
      const auto into = input_gradient.defined() ? Into::add : Into::overwrite;
      if (into == Into::overwrite)
        input_gradient = at::empty(input.sizes(), input.options().dtype(wide_type(input.scalar_type())));
      multiply_back_out(input_gradient, d, bound_value(*weight), into);
    }
    if (input_gradient.defined()) input_gradient = input_gradient.to(input.scalar_type());
    return {input_gradient, {}, {}, {}};
  }
};

void check(const at::Tensor& input, const LinearWeight& use) {
  base::expect(use.weight != nullptr && use.weight->value().dim() == 2 && input.dim() == 2 &&
                   input.size(1) == use.weight->value().size(1),
               "linear: input [tokens, in] and weight [out, in] do not fit");
  base::expect(use.bias == nullptr || use.bias->value().numel() == use.weight->value().size(0),
               "linear: the bias has not one value for each output");
}

}  // namespace

at::Tensor linear(const at::Tensor& input, device::Weight& weight, device::Weight* bias,
                  std::optional<at::ScalarType> result) {
  const std::vector<LinearWeight> weights{{&weight, bias}};
  check(input, weights[0]);
  return Linear::apply(input, weight.anchor(), weights, result.value_or(input.scalar_type()))[0];
}

std::vector<at::Tensor> linear(const at::Tensor& input, const std::vector<LinearWeight>& weights) {
  base::expect(!weights.empty(), "linear: no weights");
  for (const auto& use : weights) check(input, use);
  return Linear::apply(input, weights[0].weight->anchor(), weights, input.scalar_type());
}

}  // namespace tessera::ops

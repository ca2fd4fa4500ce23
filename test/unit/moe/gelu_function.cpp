#include "gelu_function.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sum.h>

namespace tessera::test {
namespace {

void apply(std::span<const at::Tensor> inputs, const at::Tensor& weight, const at::Tensor& activation) {
  activation.copy_(at::gelu(inputs[0].to(weight.scalar_type())).mul(weight.unsqueeze(1)));
}

void differentiate_gelu(std::span<const at::Tensor> inputs, const at::Tensor& weight, const at::Tensor& d,
                        const moe::FunctionGradient& result) {
  const auto x = inputs[0].to(weight.scalar_type()), wide_d = d.to(weight.scalar_type()), value = at::gelu(x);
  result.d_weight.copy_(at::sum(wide_d.mul(value), {1}));
  result.d_inputs[0].copy_(at::gelu_backward(wide_d.mul(weight.unsqueeze(1)), x));
  result.activation.copy_(value.mul(weight.unsqueeze(1)));
}

}  // namespace

const moe::ExpertFunction& gelu() {
  static constexpr moe::ExpertFunction function{
      .name = "gelu", .inputs = 1, .forward = apply, .backward = differentiate_gelu};
  return function;
}

}  // namespace tessera::test

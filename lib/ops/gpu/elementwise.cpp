#include "ops/gpu/elementwise.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include "ops/wide_type.h"

namespace tessera::ops::gpu {

at::Tensor turn(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine, int direction) {
  const auto half = heads.size(2) / 2;
  const auto wide = heads.to(cosine.scalar_type());
  const auto first = wide.narrow(2, 0, half), second = wide.narrow(2, half, half);
  const auto c = cosine.unsqueeze(1);
  const auto s = direction > 0 ? sine.unsqueeze(1) : sine.unsqueeze(1).neg();
  return at::cat({at::mul(first, c).sub_(at::mul(second, s)), at::mul(second, c).add_(at::mul(first, s))}, 2)
      .to(heads.scalar_type());
}

// The rows stay in the compute type; a weight is one number a row, rounded to it once.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight) {
  auto result = at::silu(gate).mul_(up);
  return weight.defined() ? result.mul_(weight.unsqueeze(1)) : result;
}

SwigluGradient swiglu_gradient(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                               const at::Tensor& d) {
  SwigluGradient result;
  const auto silu = at::silu(gate);
  result.activation = at::mul(silu, up);
  auto weighted = d;
  if (weight.defined()) {
    const auto w = weight.unsqueeze(1);
    result.d_weight = at::sum(at::mul(d, result.activation), {1}, false, wide_type(gate.scalar_type()));
    result.activation.mul_(w);
    weighted = at::mul(d, w.to(d.scalar_type()));
  }
  result.d_up = at::mul(weighted, silu);
  result.d_gate = at::silu_backward(weighted.mul(up), gate);
  return result;
}

}  // namespace tessera::ops::gpu

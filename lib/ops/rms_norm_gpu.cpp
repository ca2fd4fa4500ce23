#include "ops/rms_norm_gpu.h"

#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/add.h>

#include <array>

#include "ops/weight_access.h"

namespace tessera::ops::gpu {

Normed norm(const at::Tensor& first, const at::Tensor& second, const at::Tensor& gain, double epsilon) {
  Normed result;
  if (second.defined()) result.sum = at::add(first, second);
  const auto& x = second.defined() ? result.sum : first;
  std::tie(result.normed, result.inverse) = at::_fused_rms_norm(x, gain.sizes(), gain, epsilon);
  return result;
}

at::Tensor norm_gradient(const at::Tensor& x, const at::Tensor& inverse, const at::Tensor& d, const at::Tensor& d_sum,
                         const device::Weight& gain) {
  const auto& g = bound_value(gain);
  auto [d_x, d_gain] = at::_fused_rms_norm_backward(d, x, g.sizes(), inverse, g, std::array<bool, 2>{true, true});
  at::Tensor gradient = bound_gradient(gain);
  gradient.add_(d_gain);
  return d_sum.defined() ? d_x.add_(d_sum) : d_x;
}

}  // namespace tessera::ops::gpu

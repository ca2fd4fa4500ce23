#include "ops/swiglu_gpu.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

namespace tessera::ops::gpu {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return at::silu(gate).mul_(up); }

SwigluGradient swiglu_gradient(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d) {
  return {at::silu_backward(at::mul(d, up), gate), at::silu(gate).mul_(d)};
}

}  // namespace tessera::ops::gpu

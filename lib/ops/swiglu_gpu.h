// SwiGLU on a GPU, by LibTorch's kernels. Without autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops::gpu {

struct SwigluGradient {
  at::Tensor d_gate, d_up;
};

// silu(gate) * up and its gradient; all tensors have one size and type.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
[[nodiscard]] SwigluGradient swiglu_gradient(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& d);

}  // namespace tessera::ops::gpu

// Rotary embedding and SwiGLU on a GPU, by LibTorch's kernels. Without autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops::gpu {

// heads [tokens, heads, head_dim] turned by tables [tokens, head_dim / 2]; direction 1 forward, -1 back.
[[nodiscard]] at::Tensor turn(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine, int direction);

struct SwigluGradient {
  at::Tensor d_gate, d_up, activation;  // activation = silu(gate) * up, times the slot weights if there are any
  at::Tensor d_weight;                  // [rows] in the wide type; undefined without weights
};

// silu(gate) * up, all [rows, n]; times weight [rows] of the wide type unless that is undefined.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight);
[[nodiscard]] SwigluGradient swiglu_gradient(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight,
                                             const at::Tensor& d);

}  // namespace tessera::ops::gpu

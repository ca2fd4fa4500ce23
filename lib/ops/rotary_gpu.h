// The rotary embedding on a GPU, by LibTorch's kernels. Without autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops::gpu {

// Turns heads [tokens, heads, head_dim] by tables [tokens, head_dim / 2]; direction 1 forward, -1 back.
[[nodiscard]] at::Tensor turn(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine, int direction);

}  // namespace tessera::ops::gpu

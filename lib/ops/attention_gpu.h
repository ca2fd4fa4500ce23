// Causal attention on a GPU, by LibTorch's scaled_dot_product_attention (FlashAttention for bfloat16).
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops::gpu {

// As ops::causal_attention; differentiable. Adjacent ranges of equal length run in one call.
[[nodiscard]] at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                          const at::Tensor& starts);

}  // namespace tessera::ops::gpu

// Root mean square norm, as HuggingFace's Qwen3MoeRMSNorm: gain * (x * rsqrt(mean(x^2) + epsilon)), statistics in the
// wide type. (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467)
#pragma once

#include <ATen/core/Tensor.h>

#include "device/weight.h"

namespace tessera::ops {

// Normalises over the last dim, so also each head of [tokens, heads, head_dim]: input [..., n], gain [n] -> [..., n].
// Backward adds into the gain's gradient buffer. Keeps the input and one wide number per row.
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& input, device::Weight& gain, double epsilon);

struct SumAndNorm {
  at::Tensor sum;     // first + second
  at::Tensor normed;  // rms_norm(sum)
};

// Adds the residual and normalises the sum, in one pass forward and one backward. first, second [tokens, n].
[[nodiscard]] SumAndNorm add_rms_norm(const at::Tensor& first, const at::Tensor& second, device::Weight& gain,
                                      double epsilon);

}  // namespace tessera::ops

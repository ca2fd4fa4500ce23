// Causal attention within ranges of tokens; the matrix of all scores never exists.
//
// FlashAttention-2's recurrence (Dao 2023, https://arxiv.org/abs/2307.08691): forward keeps the output and the
// log-sum-exp of each row; backward forms the probabilities again, block by block.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops {

// Attends causally within ranges of tokens, with scale 1 / sqrt(head_dim); differentiable. query [tokens, heads,
// head_dim]; key and value [tokens, kv_heads, head_dim], where kv_heads divides heads and query head h reads key head h
// / (heads / kv_heads). starts [ranges + 1] int64 on the CPU, ascending from 0 to tokens: a token sees itself and the
// tokens before it in its range. Returns [tokens, heads, head_dim]. Forms scores and softmax in the wide type (on a GPU
// LibTorch's kernels form them in float32).
[[nodiscard]] at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                          const at::Tensor& starts);

}  // namespace tessera::ops

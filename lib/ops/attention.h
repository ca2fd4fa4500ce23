// Causal attention within ranges of tokens, without a matrix of all scores.
//
// FlashAttention-2's recurrence (Dao 2023, https://arxiv.org/abs/2307.08691): forward keeps the output and the
// log-sum-exp of each row; backward forms the probabilities again, block by block.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops {

// query [tokens, heads, head_dim], key and value [tokens, kv_heads, head_dim], kv_heads divides heads (head h reads key
// head h / (heads / kv_heads)); starts [ranges + 1] int64 on the CPU, ascending from 0 to tokens: a token sees itself
// and the tokens before it in its range. Scale 1 / sqrt(head_dim). -> [tokens, heads, head_dim]. Scores and softmax in
// the wide type (on a GPU in float32, as LibTorch's kernels have it).
[[nodiscard]] at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                          const at::Tensor& starts);

}  // namespace tessera::ops

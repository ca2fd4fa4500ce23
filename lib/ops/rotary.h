// Rotary position embedding, HuggingFace's convention: dim i turns with dim i + head_dim / 2 (`rotate_half`).
// (Su et al. 2021, https://arxiv.org/abs/2104.09864)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera::ops {

// Both [tokens, head_dim / 2], in the wide type. (HuggingFace's tables repeat these columns once.)
struct RotaryTables {
  at::Tensor cosine;
  at::Tensor sine;
};

// positions [tokens] int64; head_dim even; angles position * theta^(-2i / head_dim), each step rounded to `wide`.
[[nodiscard]] RotaryTables rotary_tables(const at::Tensor& positions, double theta, std::int64_t head_dim,
                                         at::ScalarType wide);

// heads [tokens, heads, head_dim] -> the same shape and type, turned; differentiable. Only the tables are kept.
[[nodiscard]] at::Tensor rotate(const at::Tensor& heads, const RotaryTables& tables);

}  // namespace tessera::ops

// Rotary position embedding, HuggingFace's convention: dim i turns with dim i + head_dim / 2 (`rotate_half`).
// (Su et al. 2021, https://arxiv.org/abs/2104.09864)
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera::ops {

// Both [tokens, head_dim / 2], in the wide type. (HuggingFace's tables have each column twice.)
struct RotaryTables {
  at::Tensor cosine;
  at::Tensor sine;
};

// Returns cosine and sine of the angles position * theta^(-2i / head_dim), i < head_dim / 2, each step rounded to
// `wide`. positions [tokens] int64; head_dim even.
[[nodiscard]] RotaryTables rotary_tables(const at::Tensor& positions, double theta, std::int64_t head_dim,
                                         at::ScalarType wide);

// Turns heads [tokens, heads, head_dim] by their token's angles; same shape and type, differentiable. Keeps only the
// tables.
[[nodiscard]] at::Tensor rotate(const at::Tensor& heads, const RotaryTables& tables);

}  // namespace tessera::ops

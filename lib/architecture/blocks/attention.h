// Attention with grouped query heads: norm, projections with norms of their own, rotary embedding, causal attention,
// and the product with the output matrix.
#pragma once

#include <string>
#include <string_view>

#include "architecture/block.h"

namespace tessera::architecture::attention {

// Segments and exchanges.
inline constexpr std::string_view project = "project", sequence_to_heads = "sequence_to_heads", attend = "attend",
                                  heads_to_sequence = "heads_to_sequence", output_product = "output_product",
                                  sum_tensor_parallel = "sum_tensor_parallel";
// Parameters of a layer: matrices [out, in], biases [out] (with attention_bias), gains [hidden] and [head_dim].
inline constexpr std::string_view input_norm = "input_layernorm.weight";
inline constexpr std::string_view query = "self_attn.q_proj.weight", query_bias = "self_attn.q_proj.bias",
                                  key = "self_attn.k_proj.weight", key_bias = "self_attn.k_proj.bias",
                                  value = "self_attn.v_proj.weight", value_bias = "self_attn.v_proj.bias",
                                  output = "self_attn.o_proj.weight", output_bias = "self_attn.o_proj.bias",
                                  query_norm = "self_attn.q_norm.weight", key_norm = "self_attn.k_norm.weight";

[[nodiscard]] Block block(const ModelConfig& config, std::int64_t layer, const std::string& unit);

}  // namespace tessera::architecture::attention

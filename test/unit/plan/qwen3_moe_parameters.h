// The parameters of a small Qwen3-MoE model with odd sizes, written down from HuggingFace's names and shapes.
#pragma once

#include "base/parameter_spec.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::plan::test {

struct Sizes {
  std::int64_t layers = 2, hidden = 33, heads = 3, key_heads = 1, head_dim = 6, experts = 5, intermediate = 7,
               vocab = 97;
};

// Returns the parameters; with `experts` 0 each layer has a dense feed-forward network.
inline std::vector<base::ParameterSpec> qwen3_moe_parameters(const Sizes& s) {
  std::vector<base::ParameterSpec> all{{"model.embed_tokens.weight", {s.vocab, s.hidden}}};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    all.push_back({layer + "input_layernorm.weight", {s.hidden}});
    all.push_back({layer + "self_attn.q_proj.weight", {s.heads * s.head_dim, s.hidden}});
    all.push_back({layer + "self_attn.k_proj.weight", {s.key_heads * s.head_dim, s.hidden}});
    all.push_back({layer + "self_attn.v_proj.weight", {s.key_heads * s.head_dim, s.hidden}});
    all.push_back({layer + "self_attn.o_proj.weight", {s.hidden, s.heads * s.head_dim}});
    all.push_back({layer + "self_attn.q_norm.weight", {s.head_dim}});
    all.push_back({layer + "self_attn.k_norm.weight", {s.head_dim}});
    all.push_back({layer + "post_attention_layernorm.weight", {s.hidden}});
    if (s.experts == 0) {
      all.push_back({layer + "mlp.gate_proj.weight", {s.intermediate, s.hidden}});
      all.push_back({layer + "mlp.up_proj.weight", {s.intermediate, s.hidden}});
      all.push_back({layer + "mlp.down_proj.weight", {s.hidden, s.intermediate}});
    } else {
      all.push_back({layer + "mlp.gate.weight", {s.experts, s.hidden}});
      all.push_back({layer + "mlp.experts.gate_proj", {s.experts, s.intermediate, s.hidden}});
      all.push_back({layer + "mlp.experts.up_proj", {s.experts, s.intermediate, s.hidden}});
      all.push_back({layer + "mlp.experts.down_proj", {s.experts, s.hidden, s.intermediate}});
    }
  }
  all.push_back({"model.norm.weight", {s.hidden}});
  all.push_back({"lm_head.weight", {s.vocab, s.hidden}});
  return all;
}

}  // namespace tessera::plan::test

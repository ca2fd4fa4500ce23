// A small model with every kind of layer, in odd sizes.
#pragma once

#include <cstdint>

#include "architecture/model_config.h"

namespace tessera::test {

// Three layers, of which `dense_layer` is dense and the others have experts.
inline architecture::ModelConfig example_config(std::int64_t dense_layer = 0) {
  architecture::ModelConfig c;
  c.vocab_size = 31;
  c.hidden_size = 15;
  c.intermediate_size = 17;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 6;
  c.num_key_value_heads = 3;
  c.head_dim = 4;
  c.moe_intermediate_size = 11;
  c.num_experts = 7;
  c.num_experts_per_tok = 3;
  c.mlp_only_layers = {dense_layer};
  return c;
}

}  // namespace tessera::test

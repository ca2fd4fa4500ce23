// A small model with every kind of layer, in odd sizes.
#pragma once

#include "architecture/model_config.h"

namespace tessera::test {

// Layer 0 dense (in mlp_only_layers), layers 1 and 2 with experts.
inline architecture::ModelConfig example_config() {
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
  c.mlp_only_layers = {0};
  return c;
}

}  // namespace tessera::test

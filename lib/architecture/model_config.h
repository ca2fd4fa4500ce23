// The shape of a model, as HuggingFace's config.json has it. family.h reads it.
//
// Keys, defaults and meanings: transformers, `Qwen3MoeConfig`
// (https://huggingface.co/docs/transformers/model_doc/qwen3_moe). Both generations of keys are read.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::architecture {

struct Family;
extern const Family qwen3_moe;

struct ModelConfig {
  std::int64_t vocab_size = 151936;
  std::int64_t hidden_size = 2048;
  std::int64_t intermediate_size = 6144;  // of the dense layers
  std::int64_t num_hidden_layers = 24;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 4;
  std::int64_t head_dim = 64;  // absent key: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 32768;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  bool attention_bias = false;
  bool tie_word_embeddings = false;
  std::int64_t decoder_sparse_step = 1;
  std::int64_t moe_intermediate_size = 768;
  std::int64_t num_experts = 128;
  std::int64_t num_experts_per_tok = 8;
  bool norm_topk_prob = false;
  double router_aux_loss_coef = 0.001;
  std::vector<std::int64_t> mlp_only_layers;
  const Family* family = &qwen3_moe;

  // Layer `layer` has experts: not in mlp_only_layers, num_experts > 0, (layer + 1) % decoder_sparse_step == 0.
  [[nodiscard]] bool is_moe_layer(std::int64_t layer) const;
  [[nodiscard]] std::int64_t moe_layers() const;
};

}  // namespace tessera::architecture

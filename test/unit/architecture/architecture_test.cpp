// If this failed, parameters would have names or shapes under which no checkpoint is found.
#include "architecture/architecture.h"

#include <algorithm>
#include <set>

#include "support/catch.h"
#include "support/example_config.h"

namespace tessera::architecture {
namespace {

using config::BalanceLoss;

TEST_CASE("parameters come in HuggingFace's order of modules") {
  ModelConfig config = test::example_config();
  config.num_hidden_layers = 2;
  config.attention_bias = true;
  const Architecture architecture(config, BalanceLoss::pooled);
  std::vector<std::string> names;
  for (const base::ParameterSpec& parameter : architecture.parameters()) names.push_back(parameter.fqn);
  const auto attention = [](const std::string& layer) {
    std::vector<std::string> list;
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
      for (const char* part : {".weight", ".bias"})
        list.push_back("model.layers." + layer + ".self_attn." + name + part);
    list.push_back("model.layers." + layer + ".self_attn.q_norm.weight");
    list.push_back("model.layers." + layer + ".self_attn.k_norm.weight");
    return list;
  };
  std::vector<std::string> expected{"model.embed_tokens.weight"};
  const auto append = [&](const std::vector<std::string>& list) {
    expected.insert(expected.end(), list.begin(), list.end());
  };
  append(attention("0"));
  append({"model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
          "model.layers.0.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight",
          "model.layers.0.post_attention_layernorm.weight"});
  append(attention("1"));
  append({"model.layers.1.mlp.experts.gate_proj", "model.layers.1.mlp.experts.up_proj",
          "model.layers.1.mlp.experts.down_proj", "model.layers.1.mlp.gate.weight",
          "model.layers.1.input_layernorm.weight", "model.layers.1.post_attention_layernorm.weight"});
  append({"model.norm.weight", "lm_head.weight"});
  CHECK(names == expected);
}

TEST_CASE("shapes are HuggingFace's") {
  ModelConfig config = test::example_config();
  config.attention_bias = true;
  const Architecture architecture(config, BalanceLoss::pooled);
  const auto shape = [&](const char* name) { return architecture.shape_of(layer_fqn(1, name)); };
  using Shape = std::vector<std::int64_t>;
  CHECK(architecture.shape_of("model.embed_tokens.weight") == Shape{31, 15});
  CHECK(architecture.shape_of("lm_head.weight") == Shape{31, 15});
  CHECK(shape("self_attn.q_proj.weight") == Shape{24, 15});
  CHECK(shape("self_attn.k_proj.weight") == Shape{12, 15});
  CHECK(shape("self_attn.v_proj.bias") == Shape{12});
  CHECK(shape("self_attn.o_proj.weight") == Shape{15, 24});
  CHECK(shape("self_attn.o_proj.bias") == Shape{15});
  CHECK(shape("self_attn.q_norm.weight") == Shape{4});
  CHECK(shape("mlp.gate.weight") == Shape{7, 15});
  CHECK(shape("mlp.experts.gate_proj") == Shape{7, 11, 15});
  CHECK(shape("mlp.experts.up_proj") == Shape{7, 11, 15});
  CHECK(shape("mlp.experts.down_proj") == Shape{7, 15, 11});
  CHECK(architecture.shape_of(layer_fqn(0, "mlp.up_proj.weight")) == Shape{17, 15});
  CHECK(architecture.shape_of(layer_fqn(0, "mlp.down_proj.weight")) == Shape{15, 17});
  CHECK_THROWS_AS(architecture.shape_of("model.layers.0.mlp.gate.weight"), std::logic_error);  // it is a dense layer
}

TEST_CASE("gains begin with ones, biases with zeros, matrices and stacks with normal numbers") {
  ModelConfig config = test::example_config();
  config.attention_bias = true;
  const Architecture architecture(config, BalanceLoss::pooled);
  for (const base::ParameterSpec& parameter : architecture.parameters()) {
    INFO(parameter.fqn);
    const auto expected = parameter.shape.size() > 1         ? Initial::normal
                          : parameter.fqn.ends_with(".bias") ? Initial::zeros
                                                             : Initial::ones;
    CHECK(architecture.initial_of(parameter.fqn) == expected);
  }
}

TEST_CASE("the fused form stacks gate and up of each layer with experts") {
  const Architecture architecture(test::example_config(), BalanceLoss::pooled);
  std::vector<std::string> fused;
  for (const base::ParameterSpec& parameter : architecture.parameters()) {
    if (!parameter.fused) continue;
    fused.push_back(parameter.fqn);
    CHECK(parameter.fused->tensor == parameter.fqn.substr(0, parameter.fqn.rfind('.')) + ".gate_up_proj");
    CHECK(parameter.fused->part == (parameter.fqn.ends_with("gate_proj") ? 0 : 1));
    CHECK(parameter.fused->parts == 2);
  }
  CHECK(fused == std::vector<std::string>{layer_fqn(1, "mlp.experts.gate_proj"), layer_fqn(1, "mlp.experts.up_proj"),
                                          layer_fqn(2, "mlp.experts.gate_proj"), layer_fqn(2, "mlp.experts.up_proj")});
}

TEST_CASE("active parameters leave out the experts that were not chosen") {
  const ModelConfig config = test::example_config();
  const Architecture architecture(config, BalanceLoss::pooled);
  const std::int64_t one_expert = 3 * 15 * 11;
  CHECK(architecture.total_parameters() - architecture.active_parameters() == 2 * (7 - 3) * one_expert);
}

TEST_CASE("a tied head is no parameter of its own") {
  ModelConfig config = test::example_config();
  const std::int64_t untied = Architecture(config, BalanceLoss::pooled).total_parameters();
  config.tie_word_embeddings = true;
  CHECK(untied - Architecture(config, BalanceLoss::pooled).total_parameters() == 31 * 15);
}

}  // namespace
}  // namespace tessera::architecture

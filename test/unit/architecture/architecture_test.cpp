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
  const ModelConfig config = test::example_config();
  const auto shape = [&](Role role) { return parameter_shape(role, config); };
  using Shape = std::vector<std::int64_t>;
  CHECK(shape(Role::embedding) == Shape{31, 15});
  CHECK(shape(Role::query) == Shape{24, 15});
  CHECK(shape(Role::key) == Shape{12, 15});
  CHECK(shape(Role::value_bias) == Shape{12});
  CHECK(shape(Role::output) == Shape{15, 24});
  CHECK(shape(Role::query_norm) == Shape{4});
  CHECK(shape(Role::router) == Shape{7, 15});
  CHECK(shape(Role::experts_gate) == Shape{7, 11, 15});
  CHECK(shape(Role::experts_up) == Shape{7, 11, 15});
  CHECK(shape(Role::experts_down) == Shape{7, 15, 11});
  CHECK(shape(Role::dense_up) == Shape{17, 15});
  CHECK(shape(Role::dense_down) == Shape{15, 17});
}

TEST_CASE("a role is found again from its name") {
  for (int i = 0; i < static_cast<int>(Role::count_); ++i) {
    const auto role = static_cast<Role>(i);
    INFO(parameter_fqn(role, 12));
    CHECK(role_of(parameter_fqn(role, 12)) == role);
  }
  for (const char* name : {"", "model", "model.layers.", "model.layers.1", "model.layers.x.mlp.gate.weight",
                           "model.layers..mlp.gate.weight", "model.layers.1.model.norm.weight", "mlp.gate.weight",
                           "model.layers.1.mlp.gate.weight.more"}) {
    INFO(name);
    CHECK_FALSE(role_of(name).has_value());
  }
}

TEST_CASE("vectors are norms or biases, and nothing else is") {
  const ModelConfig config = test::example_config();
  for (int i = 0; i < static_cast<int>(Role::count_); ++i) {
    const auto role = static_cast<Role>(i);
    CHECK((is_norm(role) || is_bias(role)) == (parameter_shape(role, config).size() == 1));
    CHECK_FALSE((is_norm(role) && is_bias(role)));
  }
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

// If this failed, a model of another shape than config.json's would be trained, or an unsupported model would be
// accepted without a word.
#include "architecture/family.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/catch.h"

namespace tessera::architecture {
namespace {

using Catch::Matchers::ContainsSubstring;
using Overrides = std::map<std::string, std::string>;

// Small, with every size different.
const std::string small = R"({
  "model_type": "qwen3_moe",
  "vocab_size": 320,
  "hidden_size": 40,
  "intermediate_size": 56,
  "num_hidden_layers": 5,
  "num_attention_heads": 6,
  "num_key_value_heads": 3,
  "head_dim": 16,
  "max_position_embeddings": 128,
  "initializer_range": 0.03,
  "rms_norm_eps": 1e-05,
  "rope_theta": 1000000.0,
  "attention_bias": true,
  "tie_word_embeddings": true,
  "decoder_sparse_step": 2,
  "moe_intermediate_size": 24,
  "num_experts": 7,
  "num_experts_per_tok": 3,
  "norm_topk_prob": true,
  "router_aux_loss_coef": 0.01,
  "mlp_only_layers": [3]
})";

base::JsonDocument parsed(const std::string& text) {
  return base::parse_json(text, "config.json", base::JsonComments::refused);
}

// `small` with members added or replaced; null removes.
std::string with(const nlohmann::json& changes) {
  nlohmann::json json = nlohmann::json::parse(small);
  json.merge_patch(changes);
  return json.dump(1);
}

ModelConfig read(const std::string& text, const Overrides& overrides = {}) {
  base::Problems problems;
  ModelConfig config = read_model_config(parsed(text), overrides, problems);
  CHECK(problems.list() == std::vector<std::string>{});
  return config;
}

// All problems, one a line.
std::string problems_of(const std::string& text, const Overrides& overrides = {}) {
  base::Problems problems;
  static_cast<void>(read_model_config(parsed(text), overrides, problems));
  std::string joined;
  for (const std::string& problem : problems.list()) joined += problem + "\n";
  return joined;
}

TEST_CASE("every key of config.json arrives") {
  const ModelConfig c = read(small);
  CHECK(c.vocab_size == 320);
  CHECK(c.hidden_size == 40);
  CHECK(c.intermediate_size == 56);
  CHECK(c.num_hidden_layers == 5);
  CHECK(c.num_attention_heads == 6);
  CHECK(c.num_key_value_heads == 3);
  CHECK(c.head_dim == 16);
  CHECK(c.max_position_embeddings == 128);
  CHECK(c.initializer_range == 0.03);
  CHECK(c.rms_norm_eps == 1e-5);
  CHECK(c.rope_theta == 1e6);
  CHECK(c.attention_bias);
  CHECK(c.tie_word_embeddings);
  CHECK(c.decoder_sparse_step == 2);
  CHECK(c.moe_intermediate_size == 24);
  CHECK(c.num_experts == 7);
  CHECK(c.num_experts_per_tok == 3);
  CHECK(c.norm_topk_prob);
  CHECK(c.router_aux_loss_coef == 0.01);
  CHECK(c.mlp_only_layers == std::vector<std::int64_t>{3});
}

TEST_CASE("absent keys have the defaults of transformers' Qwen3MoeConfig") {
  // transformers 5.24: Qwen3MoeConfig().to_dict(); head_dim as modeling_qwen3_moe.py computes it.
  const ModelConfig c = read("{}");
  CHECK(c.vocab_size == 151936);
  CHECK(c.hidden_size == 2048);
  CHECK(c.intermediate_size == 6144);
  CHECK(c.num_hidden_layers == 24);
  CHECK(c.num_attention_heads == 32);
  CHECK(c.num_key_value_heads == 4);
  CHECK(c.head_dim == 64);
  CHECK(c.max_position_embeddings == 32768);
  CHECK(c.initializer_range == 0.02);
  CHECK(c.rms_norm_eps == 1e-6);
  CHECK(c.rope_theta == 10000);
  CHECK_FALSE(c.attention_bias);
  CHECK_FALSE(c.tie_word_embeddings);
  CHECK(c.decoder_sparse_step == 1);
  CHECK(c.moe_intermediate_size == 768);
  CHECK(c.num_experts == 128);
  CHECK(c.num_experts_per_tok == 8);
  CHECK_FALSE(c.norm_topk_prob);
  CHECK(c.router_aux_loss_coef == 0.001);
  CHECK(c.mlp_only_layers.empty());
}

TEST_CASE("an absent or null head_dim is hidden_size / num_attention_heads") {
  const nlohmann::json shape = {{"hidden_size", 48}, {"num_attention_heads", 6}};
  nlohmann::json null_head = shape;
  null_head["head_dim"] = nullptr;
  CHECK(read(with(null_head)).head_dim == 8);  // merge_patch removes the member
  CHECK(read(with(shape), {{"head_dim", "null"}}).head_dim == 8);
  CHECK(read(R"({"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": null})").head_dim ==
        8);
}

TEST_CASE("both generations of keys mean the same") {
  CHECK(read(with({{"num_experts", nullptr}, {"num_local_experts", 5}})).num_experts == 5);
  CHECK(read(with({{"num_local_experts", 7}})).num_experts == 7);
  CHECK_THAT(problems_of(with({{"num_local_experts", 5}})),
             ContainsSubstring("num_local_experts = 5 contradicts num_experts = 7"));

  const nlohmann::json newer = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  CHECK(read(with({{"rope_theta", nullptr}, {"rope_parameters", newer}})).rope_theta == 5e5);
  CHECK(read(with({{"rope_theta", 5e5}, {"rope_parameters", newer}})).rope_theta == 5e5);
  CHECK(read(with({{"rope_parameters", {{"rope_type", "default"}}}})).rope_theta == 1e6);
  CHECK_THAT(problems_of(with({{"rope_parameters", newer}})), ContainsSubstring("contradicts rope_theta = 1000000"));
}

TEST_CASE("an override displaces the key in either spelling") {
  CHECK(read(small, {{"hidden_size", "44"}}).hidden_size == 44);
  CHECK(read(small, {{"num_local_experts", "4"}}).num_experts == 4);
  CHECK(read(with({{"num_experts", nullptr}, {"num_local_experts", 5}}), {{"num_experts", "4"}}).num_experts == 4);
  const nlohmann::json newer = {{"rope_theta", 5e5}, {"rope_type", "default"}};
  CHECK(read(with({{"rope_theta", nullptr}, {"rope_parameters", newer}}), {{"rope_theta", "7.0"}}).rope_theta == 7);
  CHECK(read(small, {{"rope_parameters", newer.dump()}}).rope_theta == 5e5);
  CHECK(read(with({{"rope_scaling", {{"rope_type", "yarn"}}}}), {{"rope_scaling", "null"}}).rope_theta == 1e6);
}

TEST_CASE("MoE layers follow decoder_sparse_step and mlp_only_layers") {
  ModelConfig c = read(small);
  const auto moe = [&c] {
    std::vector<std::int64_t> layers;
    for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
      if (c.is_moe_layer(layer)) layers.push_back(layer);
    CHECK(c.moe_layers() == static_cast<std::int64_t>(layers.size()));
    return layers;
  };
  // (layer + 1) % 2 == 0: layers 1 and 3, of which 3 is dense.
  CHECK(moe() == std::vector<std::int64_t>{1});
  c.mlp_only_layers.clear();
  CHECK(moe() == std::vector<std::int64_t>{1, 3});
  c.decoder_sparse_step = 1;
  CHECK(moe() == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  c.num_experts = 0;
  CHECK(moe().empty());
}

TEST_CASE("what is not supported is refused by name") {
  struct Case {
    nlohmann::json change;
    const char* expected;
  };
  const std::vector<Case> cases{
      {{{"model_type", "mixtral"}}, "model_type = \"mixtral\"; only \"qwen3_moe\""},
      {{{"hidden_act", "gelu"}}, "hidden_act = \"gelu\"; only \"silu\""},
      {{{"attention_dropout", 0.1}}, "attention_dropout = 0.1; only 0"},
      {{{"use_sliding_window", true}}, "use_sliding_window = true; only false"},
      {{{"quantization_config", {{"bits", 4}}}}, "quantization_config = {\"bits\":4}; only without it"},
      {{{"partial_rotary_factor", 0.5}}, "partial_rotary_factor = 0.5; only 1"},
      {{{"layer_types", {"full_attention", "sliding_attention"}}}, "layer_types"},
      {{{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}, "rope_scaling.type = \"linear\"; only default"},
      {{{"rope_parameters", {{"rope_type", "yarn"}}}}, "rope_parameters.rope_type = \"yarn\"; only default"},
      {{{"rope_parameters", {{"rope_type", "default"}, {"factor", 2}}}}, "rope_parameters.factor = 2"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.change.dump());
    CHECK_THAT(problems_of(with(one.change)), ContainsSubstring("not supported: ") && ContainsSubstring(one.expected));
  }
  CHECK_THAT(problems_of(small, {{"hidden_act", "\"gelu\""}}),
             ContainsSubstring("not supported: model.hidden_act = \"gelu\""));
}

TEST_CASE("keys that cannot change training are accepted") {
  const std::string text = with({{"torch_dtype", "bfloat16"},
                                 {"use_cache", false},
                                 {"eos_token_id", {1, 2}},
                                 {"architectures", {"Qwen3MoeForCausalLM"}},
                                 {"transformers_version", "4.51.0"},
                                 {"output_router_logits", true},
                                 {"sliding_window", 4096},
                                 {"max_window_layers", 28},
                                 {"_name_or_path", "x"},
                                 {"attention_dropout", 0.0},
                                 {"hidden_act", "silu"},
                                 {"use_sliding_window", false}});
  CHECK(read(text).hidden_size == 40);
}

TEST_CASE("an unknown key is refused with its line and the nearest name") {
  CHECK_THAT(problems_of("{\n\"vocab_size\": 300,\n\"hiden_size\": 64}"),
             ContainsSubstring("config.json:3: hiden_size is not a key of Qwen3-MoE; did you mean hidden_size?"));
  for (const char* key : {"shared_expert_intermediate_size", "router_jitter_noise", "hidden_dropout"})
    CHECK_THAT(problems_of(with({{key, 0.1}})), ContainsSubstring(std::string(key) + " is not a key of Qwen3-MoE"));
}

TEST_CASE("wrong types and sizes are refused, all at once") {
  const std::string text = problems_of(with({{"hidden_size", "40"},
                                             {"num_hidden_layers", 1.5},
                                             {"vocab_size", 0},
                                             {"rms_norm_eps", 0},
                                             {"attention_bias", 1},
                                             {"mlp_only_layers", {0, -1}},
                                             {"num_experts", 3000000000LL}}));
  CHECK_THAT(text, ContainsSubstring("hidden_size = \"40\" is a string; write 40 without quotes"));
  CHECK_THAT(text, ContainsSubstring("num_hidden_layers = 1.5 is not an integer"));
  CHECK_THAT(text, ContainsSubstring("vocab_size = 0 is out of range; at least 1"));
  CHECK_THAT(text, ContainsSubstring("rms_norm_eps = 0 is out of range; above 0"));
  CHECK_THAT(text, ContainsSubstring("attention_bias = 1 is a number; give true or false"));
  CHECK_THAT(text, ContainsSubstring("mlp_only_layers[1] = -1 is out of range"));
  CHECK_THAT(text, ContainsSubstring("num_experts = 3000000000 is out of range"));
  CHECK_THAT(problems_of("[1]"), ContainsSubstring("config.json is one JSON object"));
}

TEST_CASE("shapes that do not fit together are refused") {
  CHECK_THAT(problems_of(with({{"num_key_value_heads", 4}})), ContainsSubstring("num_attention_heads = 6"));
  CHECK_THAT(problems_of(with({{"head_dim", 15}})), ContainsSubstring("head_dim = 15 is not an even number"));
  CHECK_THAT(problems_of(with({{"num_experts_per_tok", 8}})),
             ContainsSubstring("num_experts_per_tok = 8 is above num_experts = 7; give 1 to 7"));
  CHECK_THAT(problems_of(with({{"num_experts", 4}, {"num_experts_per_tok", 5}})),
             ContainsSubstring("num_experts_per_tok = 5 is above num_experts = 4; give 1 to 4"));
  CHECK_THAT(problems_of(with({{"num_experts_per_tok", 0}})),
             ContainsSubstring("num_experts_per_tok = 0 is out of range; at least 1"));
  CHECK_THAT(problems_of(with({{"mlp_only_layers", {5}}})),
             ContainsSubstring("mlp_only_layers names layer 5 of 5; give 0 to 4"));
  CHECK_THAT(problems_of(with({{"hidden_size", 2000000000}, {"vocab_size", 2000000000}})),
             ContainsSubstring("parameters; at most"));
  CHECK(read(with({{"num_experts", 0}, {"num_experts_per_tok", 8}})).moe_layers() == 0);
}

TEST_CASE("a written config.json reads back as the same shape") {
  const ModelConfig c = read(small);
  const std::string text = to_config_json(c);
  CHECK(to_config_json(read(text)) == text);
  CHECK(read(text).head_dim == 16);
  const nlohmann::json json = nlohmann::json::parse(text);
  CHECK(json["num_experts"] == json["num_local_experts"]);
  CHECK(json["rope_parameters"]["rope_theta"] == 1e6);
}

}  // namespace
}  // namespace tessera::architecture

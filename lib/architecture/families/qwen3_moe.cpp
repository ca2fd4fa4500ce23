// Qwen3-MoE: the keys of its config.json, their checks, and the blocks of its model.
//
// Defaults and meanings checked against transformers 5.24, models/qwen3_moe/configuration_qwen3_moe.py and
// modeling_qwen3_moe.py.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "architecture/blocks/attention.h"
#include "architecture/blocks/dense_mlp.h"
#include "architecture/blocks/embedding.h"
#include "architecture/blocks/experts.h"
#include "architecture/blocks/head.h"
#include "architecture/blocks/router.h"
#include "architecture/config_reader.h"
#include "architecture/family.h"

namespace tessera::architecture {
namespace {

using Json = nlohmann::json;

void read_shape(ConfigReader& r, ModelConfig& c) {
  r.take("vocab_size", count(1), c.vocab_size);
  r.take("hidden_size", count(1), c.hidden_size);
  r.take("intermediate_size", count(1), c.intermediate_size);
  r.take("num_hidden_layers", {.kind = config::Kind::integer, .range = config::between(1, 100000)},
         c.num_hidden_layers);
  r.take("num_attention_heads", count(1), c.num_attention_heads);
  r.take("num_key_value_heads", count(1), c.num_key_value_heads);
  const bool head = r.take("head_dim", count(1), c.head_dim);
  if (!head) c.head_dim = c.hidden_size / c.num_attention_heads;
  r.take("max_position_embeddings", count(1), c.max_position_embeddings);
  r.take("initializer_range", number(config::at_least(0)), c.initializer_range);
  r.take("rms_norm_eps", number(config::above(0)), c.rms_norm_eps);
  r.take("attention_bias", boolean(), c.attention_bias);
  r.take("tie_word_embeddings", boolean(), c.tie_word_embeddings);
}

void read_experts(ConfigReader& r, ModelConfig& c) {
  r.take("decoder_sparse_step", count(1), c.decoder_sparse_step);
  r.take("moe_intermediate_size", count(1), c.moe_intermediate_size);
  std::int64_t newer = 0;
  const bool has_older = r.take("num_experts", count(0), c.num_experts);
  if (r.take("num_local_experts", count(0), newer)) {
    if (has_older && newer != c.num_experts)
      r.problems().add("{} = {} contradicts num_experts = {}, the older spelling; keep one of them",
                       r.named("num_local_experts"), newer, c.num_experts);
    c.num_experts = newer;
  }
  r.take("num_experts_per_tok", count(1), c.num_experts_per_tok);
  r.take("norm_topk_prob", boolean(), c.norm_topk_prob);
  r.take("router_aux_loss_coef", number(config::at_least(0)), c.router_aux_loss_coef);
  r.take("mlp_only_layers", {.kind = config::Kind::integers, .range = config::count_from(0)}, c.mlp_only_layers);
}

// HuggingFace reads sliding_window only with use_sliding_window: many files have it, but to ask for it is a mistake.
void check_windows(ConfigReader& r) {
  if (const Json* width = r.find("sliding_window"); width != nullptr && r.is_overridden("sliding_window"))
    r.problems().add("model.sliding_window = {} has no effect: use_sliding_window is false; leave it out",
                     ConfigReader::shown(*width));
  if (const Json* kinds = r.find("layer_types"))
    if (!kinds->is_array() ||
        std::any_of(kinds->begin(), kinds->end(), [](const Json& k) { return k != "full_attention"; }))
      r.refuse(r.named("layer_types"), *kinds, "full_attention in every layer");
}

ModelConfig read(ConfigReader& r) {
  ModelConfig config;
  read_shape(r, config);
  r.take_rotary(config.rope_theta);
  read_experts(r, config);
  r.check_fixed({{"hidden_act", {"silu", "swish"}},
                 {"attention_dropout", {0}},
                 {"use_sliding_window", {false}},
                 {"quantization_config", {nullptr}},
                 {"partial_rotary_factor", {1}}});
  check_windows(r);
  return config;
}

void check_attention(const ModelConfig& c, const std::string& source, base::Problems& problems) {
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    problems.add(
        "{}: num_attention_heads = {} does not divide into num_key_value_heads = {} groups of one size; give a divisor "
        "of "
        "{}",
        source, c.num_attention_heads, c.num_key_value_heads, c.num_attention_heads);
  if (c.head_dim < 1 || c.head_dim % 2 != 0)
    problems.add(
        "{}: head_dim = {} is not an even number; the rotary embedding turns pairs: give head_dim, or a hidden_size "
        "that "
        "num_attention_heads divides into an even number",
        source, c.head_dim);
}

void check_experts(const ModelConfig& c, const std::string& source, base::Problems& problems) {
  for (const std::int64_t layer : c.mlp_only_layers)
    if (layer >= c.num_hidden_layers)
      problems.add("{}: mlp_only_layers names layer {} of {}; give 0 to {}", source, layer, c.num_hidden_layers,
                   c.num_hidden_layers - 1);
  if (c.num_experts > 0 && c.num_experts_per_tok > c.num_experts)
    problems.add("{}: num_experts_per_tok = {} is above num_experts = {}; give 1 to {}", source, c.num_experts_per_tok,
                 c.num_experts, c.num_experts);
}

// Sizes of tensors and their sums are 64-bit integers everywhere behind this.
void check_total(const ModelConfig& c, const std::string& source, base::Problems& problems) {
  constexpr double most = 1e15;
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const double heads = real(c.num_attention_heads + 2 * c.num_key_value_heads) * real(c.head_dim) * real(c.hidden_size);
  const double experts = 3 * real(c.num_experts) * real(c.moe_intermediate_size) * real(c.hidden_size);
  const double dense = 3 * real(c.intermediate_size) * real(c.hidden_size);
  const double total =
      real(c.num_hidden_layers) * (heads + std::max(experts, dense)) + 2 * real(c.vocab_size) * real(c.hidden_size);
  if (total > most) problems.add("{}: the model has about {:.2g} parameters; at most {:.0g}", source, total, most);
}

void check(const ModelConfig& c, const std::string& source, base::Problems& problems) {
  check_attention(c, source, problems);
  check_experts(c, source, problems);
  check_total(c, source, problems);
}

std::string write(const ModelConfig& c) {
  nlohmann::ordered_json json;
  json["architectures"] = {"Qwen3MoeForCausalLM"};
  json["attention_bias"] = c.attention_bias;
  json["attention_dropout"] = 0.0;
  json["decoder_sparse_step"] = c.decoder_sparse_step;
  json["head_dim"] = c.head_dim;
  json["hidden_act"] = "silu";
  json["hidden_size"] = c.hidden_size;
  json["initializer_range"] = c.initializer_range;
  json["intermediate_size"] = c.intermediate_size;
  json["max_position_embeddings"] = c.max_position_embeddings;
  json["mlp_only_layers"] = c.mlp_only_layers;
  json["model_type"] = qwen3_moe.model_type;
  json["moe_intermediate_size"] = c.moe_intermediate_size;
  json["norm_topk_prob"] = c.norm_topk_prob;
  json["num_attention_heads"] = c.num_attention_heads;
  json["num_experts"] = c.num_experts;
  json["num_experts_per_tok"] = c.num_experts_per_tok;
  json["num_hidden_layers"] = c.num_hidden_layers;
  json["num_key_value_heads"] = c.num_key_value_heads;
  json["num_local_experts"] = c.num_experts;
  json["rms_norm_eps"] = c.rms_norm_eps;
  json["rope_parameters"] = {{"rope_theta", c.rope_theta}, {"rope_type", "default"}};
  json["rope_theta"] = c.rope_theta;
  json["router_aux_loss_coef"] = c.router_aux_loss_coef;
  json["tie_word_embeddings"] = c.tie_word_embeddings;
  json["use_sliding_window"] = false;
  json["vocab_size"] = c.vocab_size;
  return json.dump(2) + "\n";
}

// HuggingFace lists the parameters of a layer's modules before the norms of the layer itself.
void put_norms_last(std::vector<Parameter>& parameters, std::int64_t layer) {
  const auto is_of_module = [&](const Parameter& p) {
    return p.spec.fqn.starts_with(layer_fqn(layer, "self_attn.")) || p.spec.fqn.starts_with(layer_fqn(layer, "mlp."));
  };
  std::ranges::stable_partition(parameters, is_of_module);
}

Block layer_block(const ModelConfig& config, std::int64_t layer) {
  const std::string unit = fmt::format("layers.{}.attention", layer);
  Block block = attention::block(config, layer, unit);
  if (config.is_moe_layer(layer)) {
    Block experts = experts::block(config, layer, swiglu_body(), fmt::format("layers.{}.experts", layer));
    Block router = router::block(config, layer, unit);
    // HuggingFace lists the experts before the router; the router runs first.
    std::swap(experts.parameters, router.parameters);
    append(block, std::move(router));
    append(block, std::move(experts));
  } else {
    append(block, dense_mlp::block(config, layer, unit));
  }
  put_norms_last(block.parameters, layer);
  return block;
}

Block build(const ModelConfig& config, config::BalanceLoss balance) {
  Block model = embedding::block(config, "embed");
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) append(model, layer_block(config, layer));
  append(model, head::block(config, balance, "head"));
  return model;
}

}  // namespace

const Family qwen3_moe{
    .model_type = "qwen3_moe", .title = "Qwen3-MoE", .read = read, .check = check, .write = write, .build = build};

}  // namespace tessera::architecture

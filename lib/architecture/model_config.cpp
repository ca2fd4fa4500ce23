// Defaults and meanings checked against transformers 5.24, models/qwen3_moe/configuration_qwen3_moe.py and
// modeling_qwen3_moe.py.
#include "architecture/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/nearest.h"
#include "config/value.h"

namespace tessera::architecture {
namespace {

using config::Kind;
using Json = nlohmann::json;

// Keys that cannot change training: how a model is saved, served or generates. Keys that begin with '_' are of this
// kind too.
const std::set<std::string, std::less<>> without_effect{"add_cross_attention",
                                                        "architectures",
                                                        "bad_words_ids",
                                                        "begin_suppress_tokens",
                                                        "bos_token_id",
                                                        "chunk_size_feed_forward",
                                                        "cross_attention_hidden_size",
                                                        "decoder_start_token_id",
                                                        "diversity_penalty",
                                                        "do_sample",
                                                        "dtype",
                                                        "early_stopping",
                                                        "encoder_no_repeat_ngram_size",
                                                        "eos_token_id",
                                                        "exponential_decay_length_penalty",
                                                        "finetuning_task",
                                                        "forced_bos_token_id",
                                                        "forced_eos_token_id",
                                                        "id2label",
                                                        "is_decoder",
                                                        "is_encoder_decoder",
                                                        "label2id",
                                                        "length_penalty",
                                                        "max_length",
                                                        "max_window_layers",
                                                        "min_length",
                                                        "no_repeat_ngram_size",
                                                        "num_beam_groups",
                                                        "num_beams",
                                                        "num_return_sequences",
                                                        "output_attentions",
                                                        "output_hidden_states",
                                                        "output_router_logits",
                                                        "output_scores",
                                                        "pad_token_id",
                                                        "prefix",
                                                        "problem_type",
                                                        "pruned_heads",
                                                        "remove_invalid_values",
                                                        "repetition_penalty",
                                                        "return_dict",
                                                        "return_dict_in_generate",
                                                        "sep_token_id",
                                                        "suppress_tokens",
                                                        "task_specific_params",
                                                        "temperature",
                                                        "tf_legacy_loss",
                                                        "tie_encoder_decoder",
                                                        "tokenizer_class",
                                                        "top_k",
                                                        "top_p",
                                                        "torch_dtype",
                                                        "torchscript",
                                                        "transformers_version",
                                                        "typical_p",
                                                        "use_bfloat16",
                                                        "use_cache"};

// Keys of which Tessera supports some values only.
struct Fixed {
  const char* key;
  std::vector<Json> supported;
};

const std::vector<Fixed>& fixed_keys() {
  static const std::vector<Fixed> keys{{"model_type", {"qwen3_moe"}},      {"hidden_act", {"silu", "swish"}},
                                       {"attention_dropout", {0}},         {"use_sliding_window", {false}},
                                       {"quantization_config", {nullptr}}, {"partial_rotary_factor", {1}}};
  return keys;
}

// The two generations of one key: an override of one displaces the other in the document.
std::string_view other_spelling(std::string_view key) {
  if (key == "num_experts") return "num_local_experts";
  if (key == "num_local_experts") return "num_experts";
  return {};
}

class Reader {
 public:
  Reader(const base::JsonDocument& document, const std::map<std::string, std::string>& overrides,
         base::Problems& problems)
      : document_(document), problems_(problems) {
    if (!document.value().is_object()) {
      problems_.add("{}: config.json is one JSON object", document.place_of(""));
      return;
    }
    json_ = document.value();
    for (const auto& [key, text] : overrides) lay_over(key, Json::parse(text));
    for (auto member = json_.begin(); member != json_.end();)  // null is HuggingFace's "absent"
      member = member->is_null() ? json_.erase(member) : std::next(member);
  }

  ModelConfig read() {
    read_shape();
    read_rotary();
    read_experts();
    check_fixed();
    check_rest();
    return std::move(config_);
  }

 private:
  void lay_over(const std::string& key, Json value) {
    json_.erase(std::string(other_spelling(key)));
    if (key == "rope_theta" && json_.contains("rope_parameters") && json_["rope_parameters"].is_object())
      json_["rope_parameters"].erase("rope_theta");
    if (key == "rope_parameters" && value.contains("rope_theta") && !overridden_.contains("rope_theta"))
      json_.erase("rope_theta");
    overridden_.insert(key);
    json_[key] = std::move(value);
  }

  // "config.json:3: hidden_size", or "model.hidden_size" of the settings.
  [[nodiscard]] std::string named(std::string_view key) const {
    if (overridden_.contains(key)) return fmt::format("model.{}", key);
    return fmt::format("{}: {}", document_.place_of("/" + base::escape_pointer(key)), key);
  }

  const Json* find(std::string_view key) {
    known_.insert(std::string(key));
    const auto member = json_.find(key);
    return member == json_.end() ? nullptr : &*member;
  }

  // Reads a value of `form` into `member`; false if the key is absent or wrong (then a problem).
  template <class T>
  bool take_value(const Json& json, const std::string& name, const config::Form& form, T& member) {
    config::Reading reading = config::read_json_value(form, json);
    if (!reading.value) {
      problems_.add("{}{}{}", name, reading.problem.starts_with('[') ? "" : " ", reading.problem);
      return false;
    }
    member = std::get<T>(std::move(*reading.value));
    return true;
  }

  template <class T>
  bool take(std::string_view key, const config::Form& form, T& member) {
    const Json* json = find(key);
    return json != nullptr && take_value(*json, named(key), form, member);
  }

  static config::Form count(double low) { return {.kind = Kind::integer, .range = config::count_from(low)}; }
  static config::Form number(config::Range range) { return {.kind = Kind::number, .range = range}; }

  void read_shape() {
    ModelConfig& c = config_;
    take("vocab_size", count(1), c.vocab_size);
    take("hidden_size", count(1), c.hidden_size);
    take("intermediate_size", count(1), c.intermediate_size);
    take("num_hidden_layers", {.kind = Kind::integer, .range = config::between(1, 100000)}, c.num_hidden_layers);
    take("num_attention_heads", count(1), c.num_attention_heads);
    take("num_key_value_heads", count(1), c.num_key_value_heads);
    const bool head = take("head_dim", count(1), c.head_dim);
    if (!head) c.head_dim = c.hidden_size / c.num_attention_heads;
    take("max_position_embeddings", count(1), c.max_position_embeddings);
    take("initializer_range", number(config::at_least(0)), c.initializer_range);
    take("rms_norm_eps", number(config::above(0)), c.rms_norm_eps);
    take("attention_bias", {.kind = Kind::boolean}, c.attention_bias);
    take("tie_word_embeddings", {.kind = Kind::boolean}, c.tie_word_embeddings);
  }

  void read_experts() {
    ModelConfig& c = config_;
    take("decoder_sparse_step", count(1), c.decoder_sparse_step);
    take("moe_intermediate_size", count(1), c.moe_intermediate_size);
    std::int64_t newer = 0;
    const bool has_older = take("num_experts", count(0), c.num_experts);
    if (take("num_local_experts", count(0), newer)) {
      if (has_older && newer != c.num_experts)
        problems_.add("{} = {} contradicts num_experts = {}, the older spelling; keep one of them",
                      named("num_local_experts"), newer, c.num_experts);
      c.num_experts = newer;
    }
    take("num_experts_per_tok", count(1), c.num_experts_per_tok);
    take("norm_topk_prob", {.kind = Kind::boolean}, c.norm_topk_prob);
    take("router_aux_loss_coef", number(config::at_least(0)), c.router_aux_loss_coef);
    take("mlp_only_layers", {.kind = Kind::integers, .range = config::count_from(0)}, c.mlp_only_layers);
  }

  // rope_theta of the older generation, rope_parameters {rope_theta, rope_type} of the newer, rope_scaling of the
  // older.
  void read_rotary() {
    const bool older = take("rope_theta", number(config::above(0)), config_.rope_theta);
    for (const char* key : {"rope_parameters", "rope_scaling"}) {
      const Json* json = find(key);
      if (json == nullptr) continue;
      if (!json->is_object()) {
        problems_.add("{} = {} is not an object; give {{\"rope_type\": \"default\", \"rope_theta\": 10000}}",
                      named(key), shown(*json));
        continue;
      }
      for (const auto& [name, value] : json->items()) read_rotary_member(key, name, value, older);
    }
  }

  void read_rotary_member(std::string_view key, const std::string& name, const Json& value, bool older) {
    const std::string place = fmt::format("{}.{}", named(key), name);
    if (name == "rope_theta") {
      double theta = 0;
      if (!take_value(value, place, number(config::above(0)), theta)) return;
      if (older && theta != config_.rope_theta)
        problems_.add("{} = {} contradicts rope_theta = {}, the older spelling; keep one of them", place, theta,
                      config_.rope_theta);
      config_.rope_theta = theta;
    } else if (name == "rope_type" || name == "type") {
      if (value != "default") refuse(place, value, "default");
    } else if (name == "partial_rotary_factor") {
      if (value != 1) refuse(place, value, "1");
    } else if (!value.is_null()) {
      problems_.add("not supported: {} = {}; only rope_theta and rope_type \"default\"", place, shown(value));
    }
  }

  static std::string shown(const Json& json) {
    std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    return text.size() > 60 ? text.substr(0, 57) + "..." : text;
  }

  void refuse(const std::string& name, const Json& value, std::string_view supported) {
    problems_.add("not supported: {} = {}; only {}", name, shown(value), supported);
  }

  void check_fixed() {
    for (const Fixed& fixed : fixed_keys()) {
      const Json* json = find(fixed.key);
      if (json == nullptr || std::find(fixed.supported.begin(), fixed.supported.end(), *json) != fixed.supported.end())
        continue;
      refuse(named(fixed.key), *json, fixed.supported[0].is_null() ? "without it" : shown(fixed.supported[0]));
    }
    // Read by HuggingFace only with use_sliding_window: many files have it, but to ask for it is a mistake.
    if (const Json* width = find("sliding_window"); width != nullptr && overridden_.contains("sliding_window"))
      problems_.add("model.sliding_window = {} has no effect: use_sliding_window is false; leave it out",
                    shown(*width));
    if (const Json* kinds = find("layer_types"))
      if (!kinds->is_array() ||
          std::any_of(kinds->begin(), kinds->end(), [](const Json& k) { return k != "full_attention"; }))
        refuse(named("layer_types"), *kinds, "full_attention in every layer");
  }

  void check_rest() {
    const std::vector<std::string> names(known_.begin(), known_.end());
    for (const auto& [key, value] : json_.items()) {
      if (known_.contains(key) || without_effect.contains(key) || key.starts_with('_')) continue;
      problems_.add(
          "{} is not a key of Qwen3-MoE{}; it might change the model, so it is not ignored: remove it, or put _ before "
          "its name",
          named(key), base::did_you_mean(key, names));
    }
  }

  const base::JsonDocument& document_;
  base::Problems& problems_;
  Json json_ = Json::object();
  std::set<std::string, std::less<>> overridden_;
  std::set<std::string, std::less<>> known_;
  ModelConfig config_;
};

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

}  // namespace

bool ModelConfig::is_moe_layer(std::int64_t layer) const {
  const bool dense = std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) != mlp_only_layers.end();
  return !dense && num_experts > 0 && (layer + 1) % decoder_sparse_step == 0;
}

std::int64_t ModelConfig::moe_layers() const {
  std::int64_t layers = 0;
  for (std::int64_t layer = 0; layer < num_hidden_layers; ++layer) layers += is_moe_layer(layer) ? 1 : 0;
  return layers;
}

ModelConfig read_model_config(const base::JsonDocument& document, const std::map<std::string, std::string>& overrides,
                              base::Problems& problems) {
  const std::size_t before = problems.list().size();
  const ModelConfig config = Reader(document, overrides, problems).read();
  if (problems.list().size() != before) return config;  // what follows would repeat the same problems
  check_attention(config, document.source(), problems);
  check_experts(config, document.source(), problems);
  check_total(config, document.source(), problems);
  return config;
}

std::string to_config_json(const ModelConfig& c) {
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
  json["model_type"] = "qwen3_moe";
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

}  // namespace tessera::architecture

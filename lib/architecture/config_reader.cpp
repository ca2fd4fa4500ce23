#include "architecture/config_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"

namespace tessera::architecture {
namespace {

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

// The two generations of one key: an override of one displaces the other in the document.
std::string_view other_spelling(std::string_view key) {
  if (key == "num_experts") return "num_local_experts";
  if (key == "num_local_experts") return "num_experts";
  return {};
}

}  // namespace

ConfigReader::ConfigReader(const base::JsonDocument& document, const std::map<std::string, std::string>& overrides,
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

void ConfigReader::lay_over(const std::string& key, Json value) {
  json_.erase(std::string(other_spelling(key)));
  if (key == "rope_theta" && json_.contains("rope_parameters") && json_["rope_parameters"].is_object())
    json_["rope_parameters"].erase("rope_theta");
  if (key == "rope_parameters" && value.contains("rope_theta") && !overridden_.contains("rope_theta"))
    json_.erase("rope_theta");
  overridden_.insert(key);
  json_[key] = std::move(value);
}

std::string ConfigReader::named(std::string_view key) const {
  if (overridden_.contains(key)) return fmt::format("model.{}", key);
  return fmt::format("{}: {}", document_.place_of("/" + base::escape_pointer(key)), key);
}

const Json* ConfigReader::find(std::string_view key) {
  known_.insert(std::string(key));
  const auto member = json_.find(key);
  return member == json_.end() ? nullptr : &*member;
}

void ConfigReader::take_rotary(double& theta) {
  const bool older = take("rope_theta", number(config::above(0)), theta);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* json = find(key);
    if (json == nullptr) continue;
    if (!json->is_object()) {
      problems_.add("{} = {} is not an object; give {{\"rope_type\": \"default\", \"rope_theta\": 10000}}", named(key),
                    shown(*json));
      continue;
    }
    for (const auto& [name, value] : json->items()) take_rotary_member(key, name, value, older, theta);
  }
}

void ConfigReader::take_rotary_member(std::string_view key, const std::string& name, const Json& value, bool older,
                                      double& theta) {
  const std::string place = fmt::format("{}.{}", named(key), name);
  if (name == "rope_theta") {
    double newer = 0;
    if (!take_value(value, place, number(config::above(0)), newer)) return;
    if (older && newer != theta)
      problems_.add("{} = {} contradicts rope_theta = {}, the older spelling; keep one of them", place, newer, theta);
    theta = newer;
  } else if (name == "rope_type" || name == "type") {
    if (value != "default") refuse(place, value, "default");
  } else if (name == "partial_rotary_factor") {
    if (value != 1) refuse(place, value, "1");
  } else if (!value.is_null()) {
    problems_.add("not supported: {} = {}; only rope_theta and rope_type \"default\"", place, shown(value));
  }
}

std::string ConfigReader::shown(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

void ConfigReader::refuse(const std::string& name, const Json& value, std::string_view supported) {
  problems_.add("not supported: {} = {}; only {}", name, shown(value), supported);
}

void ConfigReader::check_fixed(const std::vector<FixedKey>& keys) {
  for (const FixedKey& fixed : keys) {
    const Json* json = find(fixed.key);
    if (json == nullptr || std::find(fixed.supported.begin(), fixed.supported.end(), *json) != fixed.supported.end())
      continue;
    refuse(named(fixed.key), *json, fixed.supported[0].is_null() ? "without it" : shown(fixed.supported[0]));
  }
}

void ConfigReader::check_rest(std::string_view title) {
  const std::vector<std::string> names(known_.begin(), known_.end());
  for (const auto& [key, value] : json_.items()) {
    if (known_.contains(key) || without_effect.contains(key) || key.starts_with('_')) continue;
    problems_.add(
        "{} is not a key of {}{}; it might change the model, so it is not ignored: remove it, or put _ before "
        "its name",
        named(key), title, base::did_you_mean(key, names));
  }
}

}  // namespace tessera::architecture

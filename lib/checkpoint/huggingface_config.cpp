#include "checkpoint/huggingface_config.h"

#include <nlohmann/json.hpp>

#include "architecture/family.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/float_type.h"

namespace tessera::checkpoint {

architecture::ModelConfig config_of(std::string_view text, const std::string& source) {
  base::Problems problems;
  auto config =
      architecture::read_model_config(base::parse_json(text, source, base::JsonComments::refused), {}, problems);
  problems.throw_if_any("the model");
  return config;
}

std::vector<base::ParameterSpec> parameters_of(const architecture::ModelConfig& config) {
  return architecture::Architecture(config, config::BalanceLoss::pooled).parameters();
}

std::string config_json_with(std::string_view text, const architecture::ModelConfig& config,
                             std::optional<ElementType> type) {
  auto json = nlohmann::json::parse(text);
  json.update(nlohmann::json::parse(architecture::to_config_json(config)));
  json.erase("rope_scaling");  // transformers 5 would replace rope_parameters by it
  for (const char* key : {"dtype", "torch_dtype"}) {
    json.erase(key);
    if (type) json[key] = torch_name(*type);
  }
  return json.dump(2) + "\n";
}

std::string merged_config(std::string_view earlier, std::string_view later) {
  auto json = nlohmann::json::parse(earlier);
  json.update(nlohmann::json::parse(later));
  return json.dump();
}

std::optional<ElementType> type_in_config(std::string_view text) {
  const auto json = nlohmann::json::parse(text);
  const auto found = json.find("dtype");
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return float_type_called(found->get_ref<const std::string&>());
}

}  // namespace tessera::checkpoint

// Reads and writes config.json: the keys that Tessera uses, and those that it only passes on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "architecture/architecture.h"
#include "architecture/model_config.h"
#include "checkpoint/safetensors.h"

namespace tessera::checkpoint {

// Reads the text of a config.json, or of a manifest's "model". Throws Error(bad_input) naming `source` and every key
// that is wrong or not supported.
[[nodiscard]] architecture::ModelConfig config_of(std::string_view text, const std::string& source);

// Returns the parameters of that model, in HuggingFace's order of modules.
[[nodiscard]] std::vector<base::ParameterSpec> parameters_of(const architecture::ModelConfig& config);

// Returns the config.json of `config`, spelled for transformers 4 and 5. Keys of `text` that Tessera does not read
// (special tokens' ids, ...) stay as they are. "dtype" and "torch_dtype" are `type`, or absent if it is nothing.
[[nodiscard]] std::string config_json_with(std::string_view text, const architecture::ModelConfig& config,
                                           std::optional<ElementType> type);

// Merges two texts of the same model's config.json; where both have a key, the value of `later` counts.
[[nodiscard]] std::string merged_config(std::string_view earlier, std::string_view later);

// Returns the value of "dtype", if it is a type of weights.
[[nodiscard]] std::optional<ElementType> type_in_config(std::string_view text);

}  // namespace tessera::checkpoint

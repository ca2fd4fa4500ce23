// config.json as it goes in and out: what Tessera reads of it, and what it only hands on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "architecture/architecture.h"
#include "architecture/model_config.h"
#include "checkpoint/safetensors.h"

namespace tessera::checkpoint {

// Of the text of a config.json, or of a manifest's "model". Error(bad_input) naming `source` and every key that is
// wrong or not supported.
[[nodiscard]] architecture::ModelConfig config_of(std::string_view text, const std::string& source);

// The parameters of that model, in HuggingFace's order of modules.
[[nodiscard]] std::vector<base::ParameterSpec> parameters_of(const architecture::ModelConfig& config);

// The config.json of `config`, spelled for transformers 4 and 5, with those keys of `text` that Tessera does not read
// (special tokens' ids, ...) as they are. "dtype" and "torch_dtype" say `type`; without one neither is there.
[[nodiscard]] std::string config_json_with(std::string_view text, const architecture::ModelConfig& config,
                                           std::optional<ElementType> type);

// Two texts of the same model's config.json as one: what both say is as in `later`.
[[nodiscard]] std::string merged_config(std::string_view earlier, std::string_view later);

// What "dtype" says, if it is a type of weights.
[[nodiscard]] std::optional<ElementType> type_in_config(std::string_view text);

}  // namespace tessera::checkpoint

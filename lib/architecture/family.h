// A family of models: how its config.json is read and written, and the blocks that it is made of.
//
// families/ has one file per family; families() lists them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "architecture/block.h"
#include "architecture/model_config.h"
#include "base/error.h"
#include "base/json.h"
#include "config/settings.h"

namespace tessera::architecture {

class ConfigReader;

struct Family {
  std::string_view model_type;  // of config.json: "qwen3_moe"
  std::string_view title;       // for people: "Qwen3-MoE"
  // Reads the family's keys; ConfigReader reports those that it was not asked for.
  ModelConfig (*read)(ConfigReader& reader);
  // Reports values that contradict each other. `source` names the file.
  void (*check)(const ModelConfig& config, const std::string& source, base::Problems& problems);
  // The text of a config.json from which `read` gives back the same values.
  std::string (*write)(const ModelConfig& config);
  // Every parameter once, in HuggingFace's order of modules (a tied head is no parameter of its own), and every step in
  // forward order: embedding, layers, head.
  Block (*build)(const ModelConfig& config, config::BalanceLoss balance);
};

[[nodiscard]] const std::vector<const Family*>& families();

// Reads `document` (a parsed config.json) with `overrides` (key -> JSON text of the value) laid over it. Its model_type
// chooses the family, Qwen3-MoE if it is absent. Adds every unknown, mistyped, out-of-range, contradictory or
// unsupported key to `problems` by name.
[[nodiscard]] ModelConfig read_model_config(const base::JsonDocument& document,
                                            const std::map<std::string, std::string>& overrides,
                                            base::Problems& problems);

// Returns the config.json of `config` in both generations' spelling; read_model_config gives back the same values.
[[nodiscard]] std::string to_config_json(const ModelConfig& config);

}  // namespace tessera::architecture

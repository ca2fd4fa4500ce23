#include "architecture/model_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "architecture/config_reader.h"
#include "architecture/family.h"

namespace tessera::architecture {
namespace {

const Family& choose_family(ConfigReader& reader) {
  const auto* json = reader.find("model_type");
  if (json == nullptr) return *families().front();
  std::string known;
  for (const Family* family : families()) {
    if (*json == family->model_type) return *family;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : " or ", family->model_type);
  }
  reader.refuse(reader.named("model_type"), *json, known);
  return *families().front();
}

}  // namespace

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> list{&qwen3_moe};
  return list;
}

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
  ConfigReader reader(document, overrides, problems);
  const Family& family = choose_family(reader);
  ModelConfig config = family.read(reader);
  config.family = &family;
  reader.check_rest(family.title);
  if (problems.list().size() == before) family.check(config, document.source(), problems);
  return config;
}

std::string to_config_json(const ModelConfig& config) { return config.family->write(config); }

}  // namespace tessera::architecture

#include "architecture/family.h"

#include <fmt/format.h>

#include "architecture/config_reader.h"

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

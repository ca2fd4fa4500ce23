// If this failed, a change that should not alter numbers would have altered them (README.md beside this file).
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

constexpr std::size_t golden_steps = 20;
const std::vector<std::string> golden_keys{"loss", "ce_loss", "aux_loss", "z_loss", "grad_norm"};

struct GoldenRun {
  Words words;
  std::map<std::string, std::string> overrides;  // of config.json
};

const std::map<std::string, GoldenRun>& runs() {
  static const std::map<std::string, GoldenRun> all{
      {"joined_pooled",
       {{"--model.router_z_loss_coef", "0.01", "--train.optimizer.weight_decay", "0.1",
         "--train.optimizer.lr_decay_style", "cosine", "--train.optimizer.lr_warmup_ratio", "0.2"},
        {{"mlp_only_layers", "[]"}}}},
      {"separate_sequence",
       {{"--model.tie_word_embeddings", "true", "--model.balance_loss", "sequence", "--data.documents", "separate",
         "--train.micro_batch_size", "3", "--train.gradient_checkpointing.enable", "true", "--train.optimizer.type",
         "sgd", "--train.optimizer.momentum", "0.9", "--train.optimizer.norm_type", "inf"},
        {}}}};
  return all;
}

Trained trained(const SmallRun& files, const GoldenRun& run, const Words& more = {}) {
  auto words = run.words;
  words.insert(words.end(), {"--train.precision", "float64", "--train.max_steps", std::to_string(golden_steps)});
  words.insert(words.end(), more.begin(), more.end());
  auto settings = files.settings(words);
  settings.model.overrides.insert(run.overrides.begin(), run.overrides.end());
  return run_training(settings);
}

std::filesystem::path golden_file(const std::string& name) {
  return std::filesystem::path(TESSERA_SOURCE_DIR) / "test" / "golden" / (name + ".json");
}

bool writes_golden() { return std::getenv("TESSERA_WRITE_GOLDEN") != nullptr; }

void write_golden(const std::string& name, const Trained& run) {
  nlohmann::ordered_json golden;
  for (const auto& key : golden_keys) golden[key] = run.column(key);
  base::write_file_atomically(golden_file(name), golden.dump(1) + "\n");
}

void compare(const std::string& name, const Trained& run) {
  const auto golden = base::parse_json_file(golden_file(name), base::JsonComments::refused);
  for (const auto& key : golden_keys) {
    const auto values = run.column(key);
    const auto expected = golden.value().at(key).get<std::vector<double>>();
    REQUIRE(expected.size() == golden_steps);
    REQUIRE(values.size() == golden_steps);
    for (std::size_t k = 0; k < golden_steps; ++k) {
      INFO(name << ", " << key << " of step " << k + 1 << ": " << values[k] << " for " << expected[k]);
      CHECK(std::abs(values[k] - expected[k]) <= 1e-10 * std::abs(expected[k]));
    }
  }
}

TEST_CASE("the first 20 losses, balance and z-losses, and gradient norms of two runs are the golden ones") {
  for (const auto& [name, golden] : runs()) {
    const SmallRun files;
    const auto run = trained(files, golden);
    if (writes_golden()) write_golden(name, run);
    compare(name, run);
  }
}

TEST_CASE("a learning rate that differs in its seventh digit is seen") {
  const SmallRun files;
  const auto golden = base::parse_json_file(golden_file("joined_pooled"), base::JsonComments::refused);
  const double expected = golden.value().at("loss").at(golden_steps - 1);
  const auto run = trained(files, runs().at("joined_pooled"), {"--train.optimizer.lr", "0.010000001"});
  CHECK(std::abs(run.column("loss").back() - expected) > 1e-10 * expected);
}

}  // namespace
}  // namespace tessera::test

// If this failed, --model.model_path would start from other weights than the checkpoint's, or train them differently.
#include <ATen/ops/equal.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

const std::filesystem::path fixtures = std::filesystem::path(TESSERA_SOURCE_DIR) / "test" / "oracle" / "fixtures";

nlohmann::json expected_of(const std::filesystem::path& fixture) {
  return base::parse_json_file(fixture / "expected.json", base::JsonComments::refused).value();
}

// The sequences of a fixture's batch as JSONL documents: its labels belong to the tokens before them.
std::string documents_of(const nlohmann::json& batch) {
  const auto ids = batch.at("ids").get<std::vector<std::int64_t>>();
  const auto labels = batch.at("labels").get<std::vector<std::int64_t>>();
  const auto starts = batch.at("sequence_starts").get<std::vector<std::ptrdiff_t>>();
  std::string text;
  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    std::vector<std::int64_t> document(ids.begin() + starts[s], ids.begin() + starts[s + 1]);
    std::vector<std::int64_t> targets{-100};
    targets.insert(targets.end(), labels.begin() + starts[s], labels.begin() + starts[s + 1]);
    document.push_back(0);
    text += nlohmann::json({{"input_ids", document}, {"labels", targets}}).dump() + "\n";
  }
  return text;
}

// A run from the fixture's weights on its batch; with its optimizer, if it is to be compared with.
config::Settings settings_of(const SmallRun& files, const std::filesystem::path& fixture,
                             const nlohmann::json& expected, const std::string& precision) {
  files.folder().write("fixture.jsonl", documents_of(expected.at("batch")));
  const auto starts = expected.at("batch").at("sequence_starts").get<std::vector<std::int64_t>>();
  const auto sequences = std::to_string(starts.size() - 1);
  const std::string balance = expected.at("balance_loss");
  auto settings = files.settings({"--model.config_path",        fixture / "config.json",
                                  "--model.model_path",         fixture,
                                  "--model.balance_loss",       balance,
                                  "--model.router_z_loss_coef", expected.at("z_loss_coef").dump(),
                                  "--data.train_path",          files.folder() / "fixture.jsonl",
                                  "--data.documents",           "separate",
                                  "--data.max_seq_len",         std::to_string(starts[1]),
                                  "--train.global_batch_size",  sequences,
                                  "--train.micro_batch_size",   sequences,
                                  "--train.precision",          precision});
  if (!expected.at(precision).contains("optimizer")) return settings;
  const auto& steps = expected.at(precision).at("optimizer");
  auto& optimizer = settings.train.optimizer;
  optimizer.lr = steps.at("lr");
  optimizer.betas = steps.at("betas").get<std::vector<double>>();
  optimizer.eps = steps.at("eps");
  optimizer.weight_decay = steps.at("weight_decay");
  optimizer.max_grad_norm = steps.at("max_grad_norm");
  settings.train.max_steps = static_cast<std::int64_t>(steps.at("losses").size());
  return settings;
}

// Fixtures whose sequences are one document each: only those can be written as documents in any order.
std::vector<std::filesystem::path> whole_sequence_fixtures() {
  std::vector<std::filesystem::path> list;
  for (const auto& entry : std::filesystem::directory_iterator(fixtures)) {
    const auto batch = expected_of(entry.path()).at("batch");
    if (batch.at("attention_starts") == batch.at("sequence_starts")) list.push_back(entry.path());
  }
  return list;
}

// The executor alone is compared in test/oracle; here data files, rates and metrics come in between.
TEST_CASE("a run from HuggingFace's weights logs the losses and norms of HuggingFace's model under torch's AdamW") {
  const auto list = whole_sequence_fixtures();
  CHECK(list.size() >= 12);
  for (const auto& fixture : list) {
    INFO(fixture.filename().string());
    const auto expected = expected_of(fixture);
    const auto& steps = expected.at("float64").at("optimizer");
    const SmallRun files;
    const auto trained = run_training(settings_of(files, fixture, expected, "float64"));
    for (const auto& [column, name] : {std::pair{"loss", "losses"}, {"grad_norm", "gradient_norms"}}) {
      const auto ours = trained.column(column), torchs = steps.at(name).get<std::vector<double>>();
      REQUIRE(ours.size() == torchs.size());
      for (std::size_t k = 0; k < ours.size(); ++k) {
        INFO(column << " of step " << k + 1);
        CHECK(std::abs(ours[k] - torchs[k]) <= 1e-10 * torchs[k]);
      }
    }
  }
}

TEST_CASE("masters are the checkpoint's numbers, bit for bit") {
  const SmallRun files;
  const auto fixture = fixtures / "base";
  Start start(settings_of(files, fixture, expected_of(fixture), "float32"));
  const checkpoint::SafetensorsFile file(fixture / "model.safetensors");
  std::size_t compared = 0;
  for (const auto& p : start.assembly().store().parameters()) {
    const auto* stored = file.find(p.placement.parameter.fqn);
    if (stored == nullptr) continue;  // experts: one tensor each
    const auto bytes = file.bytes(*stored);
    INFO(p.placement.parameter.fqn);
    REQUIRE(bytes.size() == p.master.nbytes());
    CHECK(std::memcmp(bytes.data(), p.master.data_ptr(), bytes.size()) == 0);
    ++compared;
  }
  CHECK(compared > 20);
  const auto& gate = start.assembly().store().parameter("model.layers.1.mlp.experts.gate_proj").master;
  const auto bytes = file.bytes(*file.find("model.layers.1.mlp.experts.3.gate_proj.weight"));
  CHECK(std::memcmp(bytes.data(), gate.select(0, 3).data_ptr(), bytes.size()) == 0);
}

}  // namespace
}  // namespace tessera::test

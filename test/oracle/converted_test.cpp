// If this failed, transformers would load another model from a converted folder than the one that was trained.
// Fixture: converted.json, made by make_converted.py, which trained, converted and evaluated the same models with
// transformers.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/float_type.h"
#include "checkpoint/safetensors.h"
#include "support/catch.h"
#include "support/ranked_command.h"
#include "support/temp_folder.h"
#include "support/words.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string jsonl_of(const json& documents) {
  std::string text;
  for (const auto& ids : documents) text += json({{"input_ids", ids}}).dump() + "\n";
  return text;
}

void require_done(const Finished& finished) {
  INFO(finished.err);
  REQUIRE(finished.code == 0);
}

// The held-out cross entropy that a run reports at its end.
double evaluation_in(const fs::path& output) {
  const auto text = base::read_file(output / "metrics.jsonl");
  const auto begin = text.rfind("{", text.rfind("\"eval/ce_loss\""));
  const auto line = base::parse_json_line(text.substr(begin, text.find('\n', begin) - begin), "metrics.jsonl", 1);
  return line.at("eval/ce_loss").get<double>();
}

// Sums as in make_converted.py, of the floats and bfloat16 numbers of a folder.
std::map<std::string, double> checksums_of(const fs::path& folder) {
  std::map<std::string, double> sums;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const checkpoint::SafetensorsFile file(entry.path());
    for (const auto& tensor : file.tensors()) {
      const auto bytes = file.bytes(tensor);
      const auto size = checkpoint::bits(tensor.type) / 8;
      double sum = 0;
      for (std::size_t k = 0; k < bytes.size() / size; ++k) {
        std::uint32_t pattern = 0;  // bfloat16 is the upper half of a float
        std::memcpy(reinterpret_cast<std::byte*>(&pattern) + (4 - size), bytes.data() + k * size, size);
        sum += static_cast<double>(std::bit_cast<float>(pattern)) * static_cast<double>(1 + k % 7);
      }
      sums[tensor.name] = sum;
    }
  }
  return sums;
}

// One model of the fixture, trained again here.
class Model {
 public:
  Model(const json& fixture, const json& model) : fixture_(fixture) {
    folder_.write("config.json", model.at("config").dump());
    for (const char* part : {"train", "eval"})
      folder_.write(std::string(part) + ".jsonl", jsonl_of(fixture.at("documents").at(part)));
    require_done(train(folder_ / "output", {"--model.config_path", folder_ / "config.json"}));
  }
  [[nodiscard]] const TempFolder& folder() const { return folder_; }
  [[nodiscard]] double trained() const { return evaluation_in(folder_ / "output"); }
  void convert(const std::string& form, const Words& options) const {
    require_done(run_command(joined({TESSERA_CONVERT, folder_ / "output", folder_ / form}, options)));
  }
  // The cross entropy of the converted weights, by Tessera: a step with a learning rate of 0, and the evaluation.
  [[nodiscard]] double evaluated(const std::string& form, const std::string& precision) const {
    const auto output = folder_ / (form + "." + precision);
    require_done(train(output, {"--model.model_path", folder_ / form, "--train.max_steps", "1", "--train.optimizer.lr",
                                "0", "--train.precision", precision}));
    return evaluation_in(output);
  }

 private:
  [[nodiscard]] Finished train(const fs::path& output, const Words& more) const {
    auto words = fixture_.at("training").get<Words>();
    for (std::size_t k = 0; k < more.size(); k += 2)  // replaces the fixture's
      if (const auto at = std::ranges::find(words, more[k]); at != words.end()) words.erase(at, at + 2);
    return run_command(joined(joined({TESSERA_TRAIN, "--data.train_path", folder_ / "train.jsonl", "--data.eval_path",
                                      folder_ / "eval.jsonl", "--train.checkpoint.output_dir", output},
                                     words),
                              more));
  }

  const json& fixture_;
  TempFolder folder_;
};

bool is_near(double value, double expected, double relative) {
  return std::abs(value - expected) <= relative * std::abs(expected);
}

TEST_CASE("transformers' loss on a converted folder is our evaluation's, in every form of the folder") {
  const auto fixture = base::parse_json_file(fs::path(TESSERA_SOURCE_DIR) / "test" / "oracle" / "converted.json",
                                             base::JsonComments::refused)
                           .value();
  CHECK(fixture.at("models").size() == 3);
  for (const auto& [name, expected] : fixture.at("models").items()) {
    const Model model(fixture, expected);
    CHECK(expected.at("forms").size() == 3);
    for (const auto& [form, values] : expected.at("forms").items()) {
      INFO(name << ", " << form);
      model.convert(form, values.at("options").get<Words>());
      const auto sums = checksums_of(model.folder() / form);
      const auto expected_sums = values.at("checksums").get<std::map<std::string, double>>();
      REQUIRE(sums.size() == expected_sums.size());
      const bool is_narrow = values.at("dtype") == "bfloat16";
      for (const auto& [tensor, sum] : expected_sums) {
        INFO(tensor);
        REQUIRE(sums.contains(tensor));
        CHECK(std::abs(sums.at(tensor) - sum) <= 1e-6 * std::max(1.0, std::abs(sum)));
      }
      const double wide = values.at("float64"), narrow = values.at("float32");
      CHECK(is_near(model.evaluated(form, "float64"), wide, 1e-6));
      CHECK(is_near(model.evaluated(form, "float32"), narrow, 1e-6));
      if (!is_narrow) CHECK(is_near(model.trained(), wide, 1e-6));
    }
  }
}

}  // namespace
}  // namespace tessera::test

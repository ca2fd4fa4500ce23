// If this failed, bfloat16 would give a loss that differs from float32's by more than rounding, with trained weights.
#include <algorithm>
#include <cmath>

#include "config/command_line.h"
#include "optim/schedule.h"
#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

constexpr std::int64_t trained_steps = 50, held_out_steps = 8;

// The text that the demo trains on, the C++ headers of this machine; without any, this project's own sources.
Words text_files() {
  std::filesystem::path root = std::filesystem::path(TESSERA_SOURCE_DIR) / "lib";
  const std::filesystem::path headers = "/usr/include/c++";
  if (std::filesystem::is_directory(headers))
    for (const auto& version : std::filesystem::directory_iterator(headers)) root = std::max(root, version.path());
  Words files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.is_regular_file() && entry.file_size() > 1024) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

config::Settings demo_settings(const std::string& precision) {
  const auto demo = std::filesystem::path(TESSERA_SOURCE_DIR) / "scripts" / "demo";
  Words words{"tessera-train",       demo / "config.json",
              "--model.config_path", demo / "model.json",
              "--data.format",       "text",
              "--train.eval_steps",  "0",
              "--train.threads",     "1",
              "--train.precision",   precision,
              "--data.train_path"};
  const auto files = text_files();
  words.insert(words.end(), files.begin(), files.end());
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  return config::read_command_line(static_cast<int>(argv.size()), argv.data()).settings;
}

void train(Start& start, const std::vector<Start::Step>& steps) {
  auto& assembly = start.assembly();
  const auto& settings = assembly.blueprint().settings.train;
  for (std::int64_t k = 0; k < trained_steps; ++k) {
    const auto& step = steps[static_cast<std::size_t>(k)];
    auto inputs = step.inputs;
    inputs.lr = optim::learning_rate(settings.optimizer, k, settings.max_steps);
    const auto& program = assembly.program(program::StepKind::train, step.windows);
    REQUIRE(assembly.executor().run(program, std::move(inputs)).outcome == executor::Outcome::done);
  }
}

// Of each step after the trained ones.
std::vector<double> losses(Start& start, const std::vector<Start::Step>& steps) {
  std::vector<double> losses;
  for (auto k = static_cast<std::size_t>(trained_steps); k < steps.size(); ++k) {
    const auto& program = start.assembly().program(program::StepKind::evaluate, steps[k].windows);
    losses.push_back(start.assembly().executor().run(program, steps[k].inputs).cross_entropy);
  }
  return losses;
}

// Not two trained runs: at the demo's rate, float32 runs whose rates differ by one part in 10^5 are already 2e-2 apart
// in single steps.
TEST_CASE("with the weights of 50 steps of the demo, bfloat16 has float32's losses to 1e-2") {
  Start wide(demo_settings("float32")), narrow(demo_settings("bfloat16"));
  const auto steps = wide.steps(trained_steps + held_out_steps);
  const auto untrained = losses(wide, steps);
  train(wide, steps);
  for (auto& p : narrow.assembly().store().parameters())
    p.master.copy_(wide.assembly().store().parameter(p.placement.parameter.fqn).master);
  const auto expected = losses(wide, steps), found = losses(narrow, steps);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    CHECK(expected[k] < 0.7 * untrained[k]);
    CHECK(found[k] != expected[k]);
    CHECK(std::abs(found[k] - expected[k]) <= 1e-2);
  }
}

}  // namespace
}  // namespace tessera::test

// If this failed, a run could not be repeated from its command line or from the settings that it wrote.
#include <filesystem>

#include "base/file.h"
#include "comm/world.h"
#include "config/command_line.h"
#include "support/catch.h"
#include "support/small_run.h"
#include "train/training_run.h"

namespace tessera::test {
namespace {

const Words keys{"loss", "ce_loss", "aux_loss", "z_loss", "grad_norm", "grad_norm/dense", "lr", "tokens"};

void check_same_numbers(const std::vector<MetricsLine>& a, const std::vector<MetricsLine>& b) {
  for (const auto& key : keys) {
    INFO(key);
    CHECK(column(a, key) == column(b, key));
    CHECK(column(a, key).size() == 5);
  }
}

TEST_CASE("the same run twice gives the same bits: losses, norms, weights, moments") {
  for (const auto& [precision, threads] : {std::pair{"float32", "2"}, {"bfloat16", "1"}, {"float64", "1"}}) {
    INFO(precision << " with " << threads << " threads");
    const SmallRun files;
    const auto settings = files.settings({"--train.precision", precision, "--train.micro_batch_size", "3",
                                          "--data.documents", "separate", "--train.threads", threads});
    const auto once = run_training(settings);
    const auto again = run_training(settings);
    check_same_numbers(once.metrics, again.metrics);
    CHECK(same_bits(once.masters, again.masters));
    CHECK(same_bits(once.moments, again.moments));
  }
}

TEST_CASE("another seed gives another run") {
  const SmallRun files;
  const auto a = run_training(files.settings({"--train.seed", "1"}));
  const auto b = run_training(files.settings({"--train.seed", "2"}));
  CHECK(a.column("loss") != b.column("loss"));
}

TEST_CASE("a training run lowers the loss and writes what it says") {
  const SmallRun files;
  const auto settings = files.settings({"--train.max_steps", "60", "--train.optimizer.lr_decay_style", "cosine",
                                        "--train.optimizer.lr_warmup_ratio", "0.1", "--data.eval_path",
                                        files.folder() / "eval.jsonl", "--train.eval_steps", "25"});
  const auto trained = run_training(settings);
  const auto loss = trained.column("ce_loss");
  REQUIRE(loss.size() == 60);
  CHECK(loss.back() < 0.6 * loss.front());
  // Evaluations after steps 25 and 50, and at the end.
  std::vector<double> evaluated;
  for (const auto& line : trained.metrics)
    if (line.numbers.contains("eval/ce_loss")) evaluated.push_back(line.numbers.at("step"));
  CHECK(evaluated == std::vector<double>{25, 50, 60});
  // Expert load every 10 steps: two layers with experts, every slot of every token.
  const auto tokens = trained.column("tokens");
  std::int64_t loads = 0;
  for (const auto& line : trained.metrics) {
    if (line.expert_load.empty()) continue;
    ++loads;
    REQUIRE(line.expert_load.size() == 2);
    for (const auto& layer : line.expert_load) {
      REQUIRE(layer.size() == 5);
      std::int64_t slots = 0;
      for (const auto expert : layer) slots += expert;
      CHECK(slots == 2 * static_cast<std::int64_t>(tokens.at(static_cast<std::size_t>(line.numbers.at("step")) - 1)));
    }
  }
  CHECK(loads == 6);
}

TEST_CASE("settings.resolved.json repeats the run with the same bits") {
  const SmallRun files;
  comm::World world{comm::Launch{}};
  const train::StopSignals signals;
  const auto settings =
      files.settings({"--train.precision", "bfloat16", "--train.micro_batch_size", "2", "--model.router_z_loss_coef",
                      "0.001", "--model.num_experts", "7", "--train.optimizer.max_grad_norm", "0.3"});
  CHECK(train::run(settings, world, signals) == base::ExitCode::done);
  const auto once = read_metrics(files.output() / "metrics.jsonl");

  const auto resolved = files.folder() / "again.json";
  std::filesystem::copy_file(files.output() / "settings.resolved.json", resolved);
  std::filesystem::remove_all(files.output());
  const std::string path = resolved;
  const char* argv[] = {"tessera-train", path.c_str()};
  const auto repeated = config::read_command_line(2, argv).settings;
  CHECK(train::run(repeated, world, signals) == base::ExitCode::done);
  check_same_numbers(once, read_metrics(files.output() / "metrics.jsonl"));
  CHECK(base::read_file(resolved) == base::read_file(files.output() / "settings.resolved.json"));
}

}  // namespace
}  // namespace tessera::test

// If this failed, a step would run other instructions than --dry-run prints.
#include <fmt/format.h>

#include <cmath>

#include "support/catch.h"
#include "support/small_run.h"
#include "train/dry_run.h"
#include "train/metrics.h"

namespace tessera::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

// The program section of a dry run, without the line numbers.
std::vector<std::string> printed_program(const config::Settings& settings) {
  std::vector<std::string> program;
  bool within = false;
  for (const auto& line : lines_of(train::dry_run(settings, 1, 0))) {
    if (line.starts_with("# ")) {
      within = line.starts_with("# program of one step");
    } else if (within && !line.empty()) {
      REQUIRE(line.substr(0, 7) == fmt::format("{:5}  ", program.size()));
      program.push_back(line.substr(7));
    }
  }
  return program;
}

TEST_CASE("a training step executes the program of --dry-run, line for line") {
  const std::vector<Words> modes{
      {},
      {"--train.micro_batch_size", "3"},
      {"--train.gradient_checkpointing.enable", "true", "--train.debug.poison_freed", "true"},
      {"--train.gradient_checkpointing.enable", "true", "--train.gradient_checkpointing.scope", "experts"},
      {"--train.accelerator.fsdp_config.fsdp_mode", "zero1", "--model.balance_loss", "sequence"},
      {"--train.accelerator.fsdp_config.fsdp_mode", "zero2", "--train.accelerator.fsdp_config.prefetch_depth", "3"},
      {"--train.accelerator.fsdp_config.fsdp_mode", "ddp", "--model.tie_word_embeddings", "true"},
      {"--train.accelerator.fsdp_config.reshard_after_forward", "false", "--train.precision", "bfloat16"},
      {"--model.mlp_only_layers", "0", "1", "2", "--train.debug.poison_freed", "true"}};
  for (const auto& words : modes) {
    INFO((words.empty() ? "default" : fmt::format("{}", fmt::join(words, " "))));
    const SmallRun files;
    const auto settings = files.settings(words);
    const auto printed = printed_program(settings);
    CHECK(printed.size() > 20);
    Start start(settings);
    for (const auto& step : start.steps(2)) {
      const auto& program = start.assembly().program(program::StepKind::train, step.windows);
      CHECK(start.assembly().executor().run(program, step.inputs).outcome == executor::Outcome::done);
      CHECK(start.assembly().executor().executed() == printed);
    }
  }
}

TEST_CASE("a dry run needs no output folder and makes none") {
  const SmallRun files;
  static_cast<void>(train::dry_run(files.settings(), 1, 0));
  CHECK_FALSE(std::filesystem::exists(files.output()));
}

TEST_CASE("a batch without a valid token executes the skipped program and moves nothing else") {
  const SmallRun files;
  // Two documents of 13 targets, of which the second one's do not count.
  std::string text = jsonl_of({small_documents(40).at(2), small_documents(40).at(9)});
  text =
      R"({"input_ids": [1,2,3,4,5,6,7,8,9,10,11,12,13,14]})"
      "\n"
      R"({"input_ids": [5,6,7,8,9,5,6,7,8,9,5,6,7,8], "labels": [-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100,-100]})"
      "\n";
  files.folder().write("masked.jsonl", text);
  const Words words{"--data.train_path",         files.folder() / "masked.jsonl",
                    "--data.documents",          "separate",
                    "--train.global_batch_size", "1",
                    "--train.num_train_epochs",  "3",
                    "--train.max_steps",         "100"};
  const auto trained = run_training(files.settings(words));
  // Three epochs of two windows: in each one of the two is skipped, and both move the step.
  CHECK(trained.ending.steps == 6);
  CHECK(trained.ending.skipped == 3);
  CHECK(trained.column("step") == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(trained.column("skipped") == std::vector<double>{1, 1, 1});
  for (const auto& line : trained.metrics)
    if (line.kind == train::step_kind)
      for (const char* key : {"loss", "ce_loss", "aux_loss", "z_loss", "grad_norm", "grad_norm/dense"}) {
        INFO(key);
        CHECK(std::isfinite(line.numbers.at(key)) != line.numbers.contains("skipped"));
      }

  Start start(files.settings(words));
  const auto steps = start.steps(2);
  auto& assembly = start.assembly();
  const auto& skipped = assembly.program(program::StepKind::skipped, 0);
  const std::vector<std::string> open{"Sum open", "Wait Sum open"};
  CHECK(program::describe(skipped) == open);
  int without_targets = 0;
  for (const auto& step : steps) {
    const auto before = assembly.store().parameters().front().master.clone();
    const auto optimizer_steps = assembly.optimizer().steps();
    const auto result = assembly.executor().run(assembly.program(program::StepKind::train, step.windows), step.inputs);
    if (result.outcome == executor::Outcome::done) continue;
    ++without_targets;
    CHECK(result.outcome == executor::Outcome::skipped);
    CHECK(assembly.executor().executed() == open);
    CHECK(assembly.optimizer().steps() == optimizer_steps);
    CHECK(same_bits({{"", before}}, {{"", assembly.store().parameters().front().master}}));
  }
  CHECK(without_targets == 1);
}

TEST_CASE("a rank that is asked to stop, or has no data, executes nothing behind open") {
  const SmallRun files;
  Start start(files.settings());
  auto step = start.steps(1).front();
  auto& assembly = start.assembly();
  const auto& program = assembly.program(program::StepKind::train, step.windows);
  step.inputs.stop = executor::Stop::terminate;
  CHECK(assembly.executor().run(program, step.inputs).outcome == executor::Outcome::stopped);
  CHECK(assembly.executor().executed().size() == 2);
  step.inputs.data_failed = true;
  CHECK(assembly.executor().run(program, step.inputs).outcome == executor::Outcome::data_failed);
  CHECK(assembly.executor().executed().size() == 2);
}

}  // namespace
}  // namespace tessera::test

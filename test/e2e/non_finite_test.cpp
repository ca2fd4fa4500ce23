// If this failed, a run would train on a loss that is not finite, or stop without saying where it arose.
#include <ATen/ops/nan_to_num.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

const std::filesystem::path base_fixture =
    std::filesystem::path(TESSERA_SOURCE_DIR) / "test" / "oracle" / "fixtures" / "base";

// A copy of the fixture's checkpoint in which element `index` of `tensor` is infinite.
std::filesystem::path checkpoint_with_infinity(const SmallRun& files, const std::string& tensor, std::size_t index) {
  auto bytes = base::read_file(base_fixture / "model.safetensors");
  const checkpoint::SafetensorsFile file(base_fixture / "model.safetensors");
  const auto* stored = file.find(tensor);
  REQUIRE(stored != nullptr);
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data() + sizeof header + header + stored->begin + index * sizeof infinity, &infinity,
              sizeof infinity);
  files.folder().write("damaged/config.json", base::read_file(base_fixture / "config.json"));
  return files.folder().write("damaged/model.safetensors", bytes).parent_path();
}

Words words_of(const std::filesystem::path& checkpoint, const Words& more = {}) {
  Words words{"--model.config_path", checkpoint / "config.json", "--model.model_path", checkpoint};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string message_of(const config::Settings& settings) {
  try {
    static_cast<void>(run_training(settings));
  } catch (const base::Error& error) {
    CHECK(error.code() == base::ExitCode::non_finite);
    return error.what();
  }
  return "no error";
}

TEST_CASE("an infinite weight stops the run, naming step, layer and batch") {
  const SmallRun files;
  const auto checkpoint = checkpoint_with_infinity(files, "model.layers.1.self_attn.o_proj.weight", 3);
  const auto message = message_of(files.settings(words_of(checkpoint)));
  CHECK(message.find("step 1: the output of layer 1 is not finite (epoch 0, windows 0 to 3)") == 0);
  CHECK(message.find("train.on_nonfinite skip") != std::string::npos);
  const auto lines = read_metrics(files.output() / "metrics.jsonl");
  REQUIRE(lines.size() == 1);
  CHECK(std::isnan(lines[0].numbers.at("loss")));
  CHECK(lines[0].numbers.at("skipped") == 1);
}

TEST_CASE("an infinite head weight is the loss's, a rate that is too large the first layer's") {
  const SmallRun files;
  const auto checkpoint = checkpoint_with_infinity(files, "lm_head.weight", 3);
  CHECK(message_of(files.settings(words_of(checkpoint))).find("step 1: the loss is not finite") == 0);
  const auto message = message_of(files.settings({"--train.optimizer.lr", "1e38"}));
  CHECK(message.find("step 2: the output of layer 0 is not finite") == 0);
}

TEST_CASE("skip passes over the steps that see an infinite weight, counts them, and the other weights stay finite") {
  const SmallRun files;
  // Token 36 has an infinite embedding; one of four documents has it.
  const auto checkpoint = checkpoint_with_infinity(files, "model.embed_tokens.weight", 36 * 20 + 7);
  files.folder().write("some.jsonl",
                       jsonl_of({{1, 2, 3, 4, 5}, {6, 7, 36, 9, 10}, {11, 12, 13, 14, 15}, {3, 1, 4, 1, 5}}));
  const auto trained = run_training(files.settings(
      words_of(checkpoint, {"--data.train_path", files.folder() / "some.jsonl", "--data.documents", "separate",
                            "--data.max_seq_len", "4", "--train.global_batch_size", "1", "--train.num_train_epochs",
                            "3", "--train.max_steps", "100", "--train.on_nonfinite", "skip"})));
  CHECK(trained.ending.steps == 12);
  CHECK(trained.ending.skipped == 3);
  const auto loss = trained.column("loss");
  REQUIRE(loss.size() == 12);
  CHECK(std::count_if(loss.begin(), loss.end(), [](double x) { return std::isfinite(x); }) == 9);
  for (const auto& [name, master] : trained.masters) {
    INFO(name);
    const auto infinite = master.isfinite().logical_not().sum().item<std::int64_t>();
    CHECK(infinite == (name == "model.embed_tokens.weight" ? 1 : 0));
  }
  for (const auto& [name, moment] : trained.moments) {
    INFO(name);
    CHECK(moment.isfinite().all().item<bool>());
  }
}

TEST_CASE("so many skipped steps in a row that nothing can come of them stop the run; with 0 they never do") {
  const SmallRun files;
  const auto checkpoint = checkpoint_with_infinity(files, "model.layers.1.self_attn.o_proj.weight", 3);
  const auto settings = [&](const std::string& limit) {
    return files.settings(words_of(checkpoint, {"--train.on_nonfinite", "skip", "--train.max_consecutive_skips", limit,
                                                "--train.max_steps", "12"}));
  };
  CHECK_THAT(
      message_of(settings("3")),
      Catch::Matchers::ContainsSubstring("step 3: the output of layer 1 is not finite") &&
          Catch::Matchers::ContainsSubstring("the last 3 steps were all like that (train.max_consecutive_skips)"));
  CHECK(read_metrics(files.output() / "metrics.jsonl").size() == 3);
  CHECK_THAT(message_of(settings(std::to_string(config::TrainSettings{}.max_consecutive_skips))),
             Catch::Matchers::StartsWith("step 10: "));
  CHECK(run_training(settings("0")).ending.skipped == 12);
}

TEST_CASE("skipped steps among others are counted anew, however many they become") {
  const SmallRun files;
  const auto checkpoint = checkpoint_with_infinity(files, "model.embed_tokens.weight", 36 * 20 + 7);
  // One window of four has the token whose embedding is infinite: at most twice in a row, at an epoch's border.
  files.folder().write("some.jsonl", jsonl_of({{1, 2, 3, 4}, {6, 7, 36, 9}, {11, 12, 13, 14}, {3, 1, 4, 1}}));
  const auto trained = run_training(files.settings(words_of(
      checkpoint, {"--data.train_path", files.folder() / "some.jsonl", "--data.documents", "separate",
                   "--data.max_seq_len", "4", "--train.global_batch_size", "1", "--train.num_train_epochs", "5",
                   "--train.max_steps", "100", "--train.on_nonfinite", "skip", "--train.max_consecutive_skips", "3"})));
  CHECK(trained.ending.skipped == 5);
  CHECK(trained.ending.steps == 20);
}

TEST_CASE("a held-out loss that is no number stops the run with its evaluation's step, and is told under skip") {
  const SmallRun files;
  const Words words{
      "--train.optimizer.lr", "1e30", "--train.max_steps", "1", "--data.eval_path", files.folder() / "eval.jsonl",
      "--train.on_nonfinite"};
  const auto message = message_of(files.settings(joined(words, {"stop"})));
  CHECK_THAT(message, Catch::Matchers::StartsWith("evaluation after step 1: ") &&
                          Catch::Matchers::ContainsSubstring(" is not finite (held-out epoch 0, windows 0 to 3)") &&
                          Catch::Matchers::ContainsSubstring("train.on_nonfinite skip"));
  const auto lines = read_metrics(files.output() / "metrics.jsonl");
  REQUIRE(!lines.empty());
  CHECK(std::isnan(lines.back().numbers.at("eval/ce_loss")));
  const auto trained = run_training(files.settings(joined(words, {"skip"})));
  CHECK(trained.ending.steps == 1);
  REQUIRE(trained.ending.evaluation.has_value());
  CHECK_FALSE(std::isfinite(trained.ending.evaluation->ce_loss));
}

TEST_CASE("a skipped step leaves weights, moments and the optimizer's count as they were") {
  const SmallRun files;
  const auto checkpoint = checkpoint_with_infinity(files, "model.layers.0.self_attn.o_proj.weight", 3);
  Start start(files.settings(words_of(checkpoint)));
  auto& assembly = start.assembly();
  const auto step = start.steps(1).front();
  const auto before = assembly.store().parameters().front().master.clone();
  const auto result = assembly.executor().run(assembly.program(program::StepKind::train, step.windows), step.inputs);
  CHECK(result.outcome == executor::Outcome::non_finite);
  CHECK(assembly.optimizer().steps() == 0);
  CHECK(same_bits({{"", before}}, {{"", assembly.store().parameters().front().master}}));
  for (const auto& p : assembly.store().parameters()) CHECK(p.gradient.abs().max().item<double>() == 0);
}

TEST_CASE("a NaN in a token or a router still gives legal experts, names the layer, and changes no weight") {
  struct Damage {
    std::string parameter;
    std::string where;
  };
  for (const auto& damage : {Damage{"model.embed_tokens.weight", "the output of layer 0"},
                             Damage{"model.layers.1.mlp.gate.weight", "the output of layer 1"},
                             Damage{"model.layers.2.post_attention_layernorm.weight", "the output of layer 2"}}) {
    INFO(damage.parameter);
    const SmallRun files;
    auto settings = files.settings();
    settings.model.overrides["mlp_only_layers"] = "[]";
    Start start(settings);
    auto& assembly = start.assembly();
    const auto step = start.steps(1).front();
    // In the embedding: one element of a token of the batch.
    auto& master = assembly.store().parameter(damage.parameter).master;
    const auto token = step.inputs.batches.at(0).at({architecture::ValueKind::ids, -1})[5].item<std::int64_t>();
    const auto row = damage.parameter == "model.embed_tokens.weight" ? token : 0;
    master.view({-1})[row * master.size(-1) + 3].fill_(std::nan(""));
    TensorsByName before;
    for (const auto& p : assembly.store().parameters())
      before[p.placement.parameter.fqn] = p.master.nan_to_num(77).clone();
    const auto result = assembly.executor().run(assembly.program(program::StepKind::train, step.windows), step.inputs);
    CHECK(result.outcome == executor::Outcome::non_finite);
    CHECK(result.non_finite_where == damage.where);
    REQUIRE(result.expert_load.size() == 3);
    for (const auto& load : result.expert_load) {
      CHECK(std::accumulate(load.begin(), load.end(), std::int64_t{0}) == 2 * result.tokens);
      CHECK(std::all_of(load.begin(), load.end(), [&](auto slots) { return slots >= 0 && slots <= result.tokens; }));
    }
    TensorsByName after;
    for (const auto& p : assembly.store().parameters()) after[p.placement.parameter.fqn] = p.master.nan_to_num(77);
    CHECK(same_bits(after, before));
  }
}

}  // namespace
}  // namespace tessera::test

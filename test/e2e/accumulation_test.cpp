// If this failed, losses or gradients would depend on how a global batch is cut into micro-batches.
#include <cmath>

#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

const Words in_float64{"--train.precision",
                       "float64",
                       "--model.balance_loss",
                       "sequence",
                       "--model.router_z_loss_coef",
                       "0.01",
                       "--train.optimizer.type",
                       "sgd",
                       "--train.optimizer.max_grad_norm",
                       "0.7"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void check_close(const std::vector<double>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    INFO("step " << k + 1);
    CHECK(std::abs(values[k] - expected[k]) <= 1e-12 * std::abs(expected[k]));
  }
}

void check_equal_runs(const Words& words, const Words& one, const Words& other) {
  const SmallRun files;
  const auto a = run_training(files.settings(with(words, one)));
  const auto b = run_training(files.settings(with(words, other)));
  for (const char* key : {"loss", "ce_loss", "aux_loss", "z_loss", "grad_norm", "grad_norm/dense", "tokens"}) {
    INFO(key);
    check_close(a.column(key), b.column(key));
    CHECK(a.column(key).size() == 5);
  }
  CHECK(largest_deviation(a.masters, b.masters) <= 1e-12);
  const auto expected = first_gradients(files.settings(with(words, other)));
  CHECK(largest_deviation(first_gradients(files.settings(with(words, one))).of, expected.of) <= 1e-12);
}

TEST_CASE("micro-batches of 1 four times equal one of 4, joined and separate documents") {
  for (const char* documents : {"joined", "separate"}) {
    INFO(documents);
    check_equal_runs(with(in_float64, {"--train.global_batch_size", "4", "--data.documents", documents}),
                     {"--train.micro_batch_size", "1"}, {"--train.micro_batch_size", "4"});
  }
}

TEST_CASE("a global batch of 10 in micro-batches of 4, 4, 2 equals ten of 1") {
  for (const char* documents : {"joined", "separate"}) {
    INFO(documents);
    check_equal_runs(with(in_float64, {"--train.global_batch_size", "10", "--data.documents", documents}),
                     {"--train.micro_batch_size", "4"}, {"--train.micro_batch_size", "1"});
  }
  const SmallRun files;
  Start start(files.settings({"--train.global_batch_size", "10", "--train.micro_batch_size", "4"}));
  const auto step = start.steps(1).front();
  std::vector<std::int64_t> tokens;
  for (const auto& batch : step.inputs.batches) tokens.push_back(batch.at({architecture::ValueKind::ids, -1}).numel());
  CHECK(tokens == std::vector<std::int64_t>{4 * 13, 4 * 13, 2 * 13});
  CHECK(start.assembly().program(program::StepKind::train, step.windows).micro_steps == 3);
}

TEST_CASE("an incomplete last step is divided by its own tokens, and the rate moves once a step") {
  const SmallRun files;
  std::vector<std::vector<std::int64_t>> documents(1);  // 10 windows of 13 tokens
  for (std::int64_t i = 0; i < 131; ++i) documents[0].push_back(i * i % 31);
  files.folder().write("ten.jsonl", jsonl_of(documents));
  const std::string ten = files.folder() / "ten.jsonl";
  const Words words{"--data.train_path",
                    ten,
                    "--data.eval_path",
                    ten,
                    "--train.micro_batch_size",
                    "1",
                    "--train.num_train_epochs",
                    "1",
                    "--train.precision",
                    "float64",
                    "--train.max_steps",
                    "1000",
                    "--train.optimizer.lr_decay_style",
                    "linear"};
  const auto still =
      run_training(files.settings(with(words, {"--train.optimizer.lr", "0", "--train.optimizer.lr_min", "0"})));
  CHECK(still.column("tokens") == std::vector<double>{52, 52, 26});
  const auto ce = still.column("ce_loss");
  const auto all = still.column("eval/ce_loss");
  REQUIRE(all.size() == 1);
  CHECK(std::abs((4 * ce[0] + 4 * ce[1] + 2 * ce[2]) / 10 - all[0]) <= 1e-12 * all[0]);

  const auto moving = run_training(files.settings(words));
  const auto lr = moving.column("lr");
  REQUIRE(lr.size() == 3);
  CHECK(lr[0] > lr[1]);
  CHECK(lr[1] > lr[2]);
}

TEST_CASE("a batch size of 0 is refused") {
  const SmallRun files;
  CHECK_THROWS_WITH(files.settings({"--train.micro_batch_size", "0"}),
                    Catch::Matchers::ContainsSubstring("train.micro_batch_size"));
}

}  // namespace
}  // namespace tessera::test

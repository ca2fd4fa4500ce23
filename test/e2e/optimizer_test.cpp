// If this failed, updates would be lost in narrow weights, or clipping would do something else than its setting says.
#include <cmath>

#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

TEST_CASE("in bfloat16 a norm weight's master moves by the rate each step, though bfloat16 could not show it") {
  const SmallRun files;
  std::vector<std::vector<std::int64_t>> one(1);
  for (std::int64_t i = 0; i < 14; ++i) one[0].push_back(i * 5 % 31);
  files.folder().write("one.jsonl", jsonl_of(one));
  const auto trained = run_training(
      files.settings({"--data.train_path", files.folder() / "one.jsonl", "--train.precision", "bfloat16",
                      "--train.global_batch_size", "1", "--train.max_steps", "10", "--train.optimizer.lr", "0.001"}));
  const auto& norm = trained.masters.at("model.norm.weight");
  CHECK(norm.scalar_type() == at::kFloat);
  const auto moved = norm.sub(1).abs().max().item<double>();
  CHECK(moved > 0.0095);
  CHECK(moved < 0.0101);
  for (const auto& [name, moment] : trained.moments) {
    INFO(name);
    CHECK(moment.scalar_type() == at::kFloat);
  }
  CHECK(trained.moments.size() == 2 * trained.masters.size());
}

TEST_CASE("one step moves every parameter") {
  const SmallRun files;
  const auto still = run_training(files.settings({"--train.max_steps", "1", "--train.optimizer.lr", "0"}));
  const auto moved = run_training(files.settings({"--train.max_steps", "1"}));
  for (const auto& [name, master] : moved.masters) {
    INFO(name);
    CHECK(master.sub(still.masters.at(name)).abs().max().item<double>() > 0);
  }
}

TEST_CASE("a step is as long as the rate times the clipped norm") {
  const SmallRun files;
  const Words words{"--train.precision",      "float64", "--train.max_steps",    "1",
                    "--train.optimizer.type", "sgd",     "--train.optimizer.lr", "0.5"};
  const auto length_with = [&](const char* limit) {
    auto limited = words, still = words;
    limited.insert(limited.end(), {"--train.optimizer.max_grad_norm", limit});
    still.insert(still.end(), {"--train.optimizer.lr", "0"});
    const auto moved = run_training(files.settings(limited));
    const auto start = run_training(files.settings(still));
    double squares = 0;
    for (const auto& [name, master] : moved.masters)
      squares += master.sub(start.masters.at(name)).square().sum().item<double>();
    return std::pair{std::sqrt(squares) / 0.5, moved.column("grad_norm").at(0)};
  };
  const auto [unclipped, norm] = length_with("0");
  CHECK(std::abs(unclipped - norm) <= 1e-12 * norm);
  CHECK(norm > 0.1);
  const auto [clipped, same_norm] = length_with("0.1");
  CHECK(same_norm == norm);
  CHECK(std::abs(clipped - 0.1) <= 1e-6 * 0.1);
}

TEST_CASE("a clip limit of 0 logs the norm and equals inf; a negative one and NaN are refused") {
  const SmallRun files;
  const auto zero = run_training(files.settings({"--train.optimizer.max_grad_norm", "0"}));
  const auto inf = run_training(files.settings({"--train.optimizer.max_grad_norm", "inf"}));
  CHECK(zero.column("grad_norm") == inf.column("grad_norm"));
  CHECK(zero.column("grad_norm").at(0) > 0);
  CHECK(same_bits(zero.masters, inf.masters));
  for (const char* wrong : {"-1", "nan"})
    CHECK_THROWS_WITH(files.settings({"--train.optimizer.max_grad_norm", wrong}),
                      Catch::Matchers::ContainsSubstring("max_grad_norm"));
}

TEST_CASE("the norm's type changes the number: the largest element, the sum, the square root") {
  const SmallRun files;
  const Words words{"--train.precision", "float64"};
  const auto gradient = first_gradients(files.settings(words));
  double largest = 0, sum = 0, squares = 0;
  for (const auto& [name, tensor] : gradient.of) {
    largest = std::max(largest, tensor.abs().max().item<double>());
    sum += tensor.abs().sum().item<double>();
    squares += tensor.square().sum().item<double>();
  }
  for (const auto& [type, expected] : {std::pair{"inf", largest}, {"1", sum}, {"2", std::sqrt(squares)}}) {
    INFO(type);
    auto more = words;
    more.insert(more.end(), {"--train.optimizer.norm_type", type});
    const auto norm = first_gradients(files.settings(more)).result.grad_norm;
    CHECK(std::abs(norm - expected) <= 1e-12 * expected);
  }
}

}  // namespace
}  // namespace tessera::test

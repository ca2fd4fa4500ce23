// If this failed, small updates would be lost because weights are narrow, or clipping would do something else than its
// setting says.
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
  for (const char* tied : {"false", "true"}) {
    const Words words{"--train.precision", "float64", "--model.tie_word_embeddings", tied};
    const auto gradient = first_gradients(files.settings(words));
    double largest = 0, sum = 0, squares = 0;
    for (const auto& [name, tensor] : gradient.of) {
      largest = std::max(largest, tensor.abs().max().item<double>());
      sum += tensor.abs().sum().item<double>();
      squares += tensor.square().sum().item<double>();
    }
    for (const auto& [type, expected] : {std::pair{"inf", largest}, {"1", sum}, {"2", std::sqrt(squares)}}) {
      CAPTURE(tied, type);
      const auto norm =
          first_gradients(files.settings(joined(words, {"--train.optimizer.norm_type", type}))).result.grad_norm;
      CHECK(std::abs(norm - expected) <= 1e-12 * expected);
    }
  }
}

void run_step(Start& start, const Start::Step& step, double lr) {
  auto inputs = step.inputs;
  inputs.lr = lr;
  auto& assembly = start.assembly();
  const auto& program = assembly.program(program::StepKind::train, step.windows);
  REQUIRE(assembly.executor().run(program, std::move(inputs)).outcome == executor::Outcome::done);
}

TensorsByName masters_of(Start& start) {
  TensorsByName masters;
  for (const auto& p : start.assembly().store().parameters()) masters[p.placement.parameter.fqn] = p.master.clone();
  return masters;
}

TEST_CASE("a step without gradient shrinks matrices by lr times the decay, and leaves norms and biases") {
  for (const char* type : {"adamw", "sgd"}) {
    INFO(type);
    const SmallRun files;
    Start start(files.settings({"--train.precision", "float64", "--train.optimizer.type", type,
                                "--train.optimizer.weight_decay", "0.1", "--model.attention_bias", "true",
                                "--model.router_aux_loss_coef", "0"}));
    // With a zero head behind a zero norm, not even these two have a gradient.
    for (auto& p : start.assembly().store().parameters()) {
      const auto& name = p.placement.parameter.fqn;
      if (name == "lm_head.weight" || name == "model.norm.weight") p.master.zero_();
      if (name.ends_with(".bias")) p.master.fill_(0.5);
    }
    const auto step = start.steps(1).front();
    const auto before = masters_of(start);
    for (const auto& [name, gradient] : gradients(start.assembly(), step).of) {
      INFO(name);
      REQUIRE(gradient.abs().max().item<double>() == 0);
    }
    run_step(start, step, 0.1);
    std::size_t matrices = 0, vectors = 0;
    for (const auto& [name, master] : masters_of(start)) {
      INFO(name);
      const bool decays = master.dim() > 1;
      ++(decays ? matrices : vectors);
      const auto expected = decays ? before.at(name).mul(0.99) : before.at(name);
      CHECK(master.sub(expected).abs().max().item<double>() <= (decays ? 1e-15 : 0));
    }
    CHECK(matrices == 1 + 3 * 4 + 3 + 2 * 4 + 1);
    CHECK(vectors == 3 * (4 + 4) + 1);
  }
}

TEST_CASE("experts that no token reaches have state from the start and are stepped like the rest") {
  const SmallRun files;
  const auto settings = files.settings({"--train.precision", "float64", "--model.num_experts_per_tok", "1",
                                        "--model.router_aux_loss_coef", "0", "--train.optimizer.weight_decay", "0.1",
                                        "--train.optimizer.max_grad_norm", "0"});
  Start start(settings);
  const std::string router = "model.layers.1.mlp.gate.weight", experts = "model.layers.1.mlp.experts.up_proj";
  auto& store = start.assembly().store();
  // Of equal probabilities the lowest expert's is chosen; the weight of the only choice is 1, so the router stays.
  store.parameter(router).master.zero_();
  const auto steps = start.steps(4);
  const auto before = masters_of(start).at(experts);
  const auto moments = [&] {
    TensorsByName found;
    for (const auto& state : start.assembly().optimizer().state())
      if (state.fqn == experts) found[state.name] = state.tensor;
    REQUIRE(found.size() == 2);
    return found;
  };
  CHECK(moments().at("exp_avg").sizes() == before.sizes());
  const double lr = 0.1, kept = 1 - lr * 0.1;
  for (std::size_t k = 0; k < 3; ++k) run_step(start, steps[k], lr);
  const auto unused = masters_of(start).at(experts).narrow(0, 1, 4);
  CHECK(unused.sub(before.narrow(0, 1, 4).mul(kept * kept * kept)).abs().max().item<double>() <= 1e-15);
  for (const auto& [name, moment] : moments()) {
    INFO(name);
    CHECK(moment.narrow(0, 1, 4).abs().max().item<double>() == 0);
    CHECK(moment.select(0, 0).abs().max().item<double>() > 0);
  }

  // Now some tokens go to expert 3: its first gradient is corrected as the fourth step's.
  store.parameter(router).master.select(0, 3).fill_(1);
  const auto gradient = gradients(start.assembly(), steps[3]).of.at(experts).select(0, 3);
  REQUIRE(gradient.abs().max().item<double>() > 0);
  const auto master = masters_of(start).at(experts).select(0, 3);
  run_step(start, steps[3], lr);
  const auto& optimizer = settings.train.optimizer;
  const auto corrected = [&](std::size_t k) {
    return (1 - optimizer.betas[k]) / (1 - std::pow(optimizer.betas[k], 4));
  };
  const auto mean = gradient.mul(corrected(0)), square = gradient.square().mul(corrected(1));
  const auto expected = master.mul(kept).sub(mean.div(square.sqrt().add(optimizer.eps)).mul(lr));
  CHECK(masters_of(start).at(experts).select(0, 3).sub(expected).abs().max().item<double>() <= 1e-14);
  CHECK(start.assembly().optimizer().steps() == 4);
}

}  // namespace
}  // namespace tessera::test

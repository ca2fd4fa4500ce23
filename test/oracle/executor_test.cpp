// If this failed, the program that trains would have other losses, gradients, norms or weights than HuggingFace's model
// and torch's AdamW, even if the plain model of oracle_test.cpp is right. Expected values: fixtures/, made by
// make_fixtures.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "comparison.h"
#include "support/catch.h"
#include "support/small_run.h"

namespace tessera::test {
namespace {

using K = architecture::ValueKind;

const Words copied_and_recomputed{"--train.debug.poison_freed", "true", "--train.gradient_checkpointing.enable",
                                  "true"};
const Words experts_recomputed{"--train.gradient_checkpointing.enable", "true", "--train.gradient_checkpointing.scope",
                               "experts"};

// A run of one rank from the fixture's weights, whose every step is the fixture's batch.
class FixtureRun {
 public:
  FixtureRun(const Fixture& fixture, Bits bits, const Words& more = {}, const config::OptimizerSettings& optimizer = {})
      : fixture_(fixture), start_(settings_of(files_, fixture, bits, more, optimizer)) {
    const auto& batch = fixture.batch();
    step_.windows = batch.sequence_starts.numel() - 1;
    step_.inputs.batches = {{{{K::ids}, batch.ids},
                             {{K::labels}, batch.labels},
                             {{K::positions}, batch.positions},
                             {{K::attention_starts}, batch.attention_starts},
                             {{K::sequence_starts}, batch.sequence_starts}}};
  }

  Outcome first_step() {
    auto [result, gradients] = test::gradients(start_.assembly(), step_);
    Outcome outcome;
    outcome.loss = loss_of(result);
    outcome.cross_entropy = result.cross_entropy;
    outcome.aux_loss = result.balance_loss;
    outcome.z_loss = result.z_loss;
    outcome.gradients = std::move(gradients);
    outcome.norms[norm_type()] = result.grad_norm;
    load_ = std::move(result.expert_load);
    return outcome;
  }
  // Slots of each expert in the first step, by MoE layer.
  [[nodiscard]] const std::vector<std::vector<std::int64_t>>& load() const { return load_; }

  Training train(std::size_t steps) {
    auto& assembly = start_.assembly();
    Training training;
    for (std::size_t k = 0; k < steps; ++k) {
      auto inputs = step_.inputs;
      inputs.lr = assembly.blueprint().settings.train.optimizer.lr;
      const auto& program = assembly.program(program::StepKind::train, step_.windows);
      const auto result = assembly.executor().run(program, std::move(inputs));
      training.losses.push_back(loss_of(result));
      training.gradient_norms.push_back(result.grad_norm);
    }
    for (const auto& p : assembly.store().parameters()) training.weights[p.placement.parameter.fqn] = p.master;
    return training;
  }

 private:
  static config::Settings settings_of(const SmallRun& files, const Fixture& fixture, Bits bits, const Words& more,
                                      const config::OptimizerSettings& optimizer) {
    files.folder().write("unused.jsonl", jsonl_of({{1, 2, 3}}));
    const auto sequences = fixture.batch().sequence_starts.numel() - 1;
    Words words{"--model.config_path",        fixture.folder() / "config.json",
                "--model.model_path",         fixture.folder(),
                "--model.balance_loss",       name_of(fixture.balance()),
                "--model.router_z_loss_coef", std::to_string(fixture.z_loss_coef()),
                "--data.train_path",          files.folder() / "unused.jsonl",
                "--data.max_seq_len",         "2",
                "--train.global_batch_size",  std::to_string(sequences),
                "--train.micro_batch_size",   std::to_string(sequences),
                "--train.precision",          bits == Bits::float32 ? "float32" : "float64"};
    words.insert(words.end(), more.begin(), more.end());
    auto settings = files.settings(words);
    const auto norm_type = settings.train.optimizer.norm_type;
    settings.train.optimizer = optimizer;
    settings.train.optimizer.norm_type = norm_type;
    return settings;
  }
  static std::string name_of(config::BalanceLoss balance) {
    if (balance == config::BalanceLoss::per_layer) return "per_layer";
    return balance == config::BalanceLoss::sequence ? "sequence" : "pooled";
  }
  [[nodiscard]] double loss_of(const executor::StepResult& result) const {
    return result.cross_entropy + fixture_.config().router_aux_loss_coef * result.balance_loss +
           fixture_.z_loss_coef() * result.z_loss;
  }
  [[nodiscard]] std::string norm_type() {
    return fmt::format("{}", start_.assembly().blueprint().settings.train.optimizer.norm_type);
  }

  const Fixture& fixture_;
  SmallRun files_;
  Start start_;
  Start::Step step_;
  std::vector<std::vector<std::int64_t>> load_;
};

void check_none(const std::vector<std::string>& differences) {
  CHECK(fmt::format("{}", fmt::join(differences, "\n")) == "");
}

// Logits and choices never leave the executor.
Outcome expected_of(const Fixture& fixture, Bits bits) {
  auto expected = fixture.expected(bits);
  expected.logits = at::Tensor();
  expected.top_k.clear();
  return expected;
}

void check_first_step(const Fixture& fixture, Bits bits, const Words& more) {
  INFO(fmt::format("{}", fmt::join(more, " ")));
  FixtureRun run(fixture, bits, more);
  check_none(differences(run.first_step(), expected_of(fixture, bits), bars_of(bits)));
  std::vector<std::vector<std::int64_t>> load;
  for (const auto& [layer, choices] : fixture.expected(bits).top_k) {
    auto& slots = load.emplace_back();
    for (std::int64_t e = 0; e < fixture.config().num_experts; ++e)
      slots.push_back(choices.eq(e).sum().item<std::int64_t>());
  }
  CHECK(run.load() == load);
}

TEST_CASE("the executor's losses, gradients and slots are HuggingFace's, in float64 to 1e-10") {
  for (const auto& name : Fixture::names()) SECTION(name) {
      const Fixture fixture(name);
      check_first_step(fixture, Bits::float32, {});
      for (const auto& words : {Words{}, copied_and_recomputed, experts_recomputed})
        check_first_step(fixture, Bits::float64, words);
    }
}

TEST_CASE("gradient norms of every p are torch's") {
  for (const auto& name : Fixture::names()) SECTION(name) {
      const Fixture fixture(name);
      for (const char* p : {"1", "2", "3", "inf"}) {
        const auto ours = FixtureRun(fixture, Bits::float64, {"--train.optimizer.norm_type", p}).first_step().norms;
        REQUIRE(ours.size() == 1);
        const double expected = fixture.expected(Bits::float64).norms.at(p);
        CHECK(std::abs(ours.at(p) - expected) <= 1e-10 * expected);
      }
    }
}

void check_training(const Fixture& fixture, Bits bits, const Bars& bars) {
  const auto expected = fixture.expected_training(bits);
  FixtureRun run(fixture, bits, {}, expected.settings);
  check_none(differences(run.train(expected.losses.size()), expected, bars));
}

TEST_CASE("steps of AdamW with clipping end at torch's weights, in float64 to 1e-10") {
  for (const auto& name : Fixture::names()) SECTION(name) {
      const Fixture fixture(name);
      REQUIRE(fixture.expected_training(Bits::float64).losses.size() >= 3);
      check_training(fixture, Bits::float64, bars_of(Bits::float64));
    }
  // With a small eps the update of a tiny gradient is its rounding error divided by itself.
  SECTION("float32, eps 1e-3") {
    check_training(Fixture("everything"), Bits::float32, {.logits = 0, .losses = 1e-6, .gradients = 1e-6});
  }
}

TEST_CASE("a value that is off by a millionth is found") {
  const Fixture fixture("everything");
  for (const auto& words : {Words{"--model.router_z_loss_coef", "0.01000001"}, {"--model.rms_norm_eps", "0.001000001"}})
    CHECK_FALSE(differences(FixtureRun(fixture, Bits::float64, words).first_step(), expected_of(fixture, Bits::float64),
                            bars_of(Bits::float64))
                    .empty());
  const auto expected = fixture.expected_training(Bits::float64);
  for (const auto setting : {&config::OptimizerSettings::lr, &config::OptimizerSettings::eps,
                             &config::OptimizerSettings::weight_decay, &config::OptimizerSettings::max_grad_norm}) {
    auto settings = expected.settings;
    settings.*setting *= 1.000001;
    const auto ours = FixtureRun(fixture, Bits::float64, {}, settings).train(expected.losses.size());
    CHECK_FALSE(differences(ours, expected, bars_of(Bits::float64)).empty());
  }
}

}  // namespace
}  // namespace tessera::test

// If this failed, the same settings would train another model than torch.optim.AdamW does: wrong moments, decay or
// clipping. Expected values: fixtures/, made by make_fixtures.py.
#include <ATen/ops/sub.h>

#include "comparison.h"
#include "optim/gradient_norm.h"
#include "optim/optimizer.h"
#include "support/catch.h"

namespace tessera::test {
namespace {

struct Bar {
  double weights;  // of each parameter's largest value
  double numbers;  // losses and gradient norms, relative
};

double norm_of(const optim::Optimizer& optimizer) {
  std::vector<optim::GroupedGradient> gradients;
  for (const optim::OptimizedShard& shard : optimizer.shards()) gradients.push_back({&shard.gradient, 0});
  return optim::finish_norms(optim::norm_parts(gradients, 1, 2), 2).total;
}

void check_training(const Fixture& fixture, Bits bits, const Bar& bar) {
  const architecture::Architecture architecture(fixture.config(), fixture.balance());
  const auto type = bits == Bits::float32 ? at::kFloat : at::kDouble;
  ComposedModel model(architecture, {type, type, type});
  load_weights(fixture.folder() / "model.safetensors", architecture, model);
  const Training expected = fixture.expected_training(bits);

  base::Problems problems;
  std::vector<optim::OptimizedShard> shards;
  for (const base::ParameterSpec& parameter : architecture.parameters())
    shards.push_back({parameter.fqn, model.parameter(parameter.fqn), model.gradient(parameter.fqn)});
  optim::Optimizer optimizer(expected.settings, optim::group_by_decay(architecture.parameters(), {}, problems), shards);
  REQUIRE(problems.empty());

  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    const Outcome outcome = run(architecture, model, fixture.batch());
    const double norm = norm_of(optimizer);
    CHECK(outcome.loss == Approx(expected.losses[step]).epsilon(bar.numbers));
    CHECK(norm == Approx(expected.gradient_norms[step]).epsilon(bar.numbers));
    optimizer.step(expected.settings.lr, optim::clip_factor(norm, expected.settings.max_grad_norm));
  }
  for (const base::ParameterSpec& parameter : architecture.parameters()) {
    INFO(parameter.fqn);
    const at::Tensor& weight = expected.weights.at(parameter.fqn);
    const double error = at::sub(model.parameter(parameter.fqn), weight).abs().max().item<double>();
    CHECK(error <= bar.weights * weight.abs().max().item<double>());
  }
}

TEST_CASE("three steps of AdamW with clipping end at torch's weights") {
  SECTION("float64, eps 1e-8") { check_training(Fixture("base"), Bits::float64, {1e-10, 1e-10}); }
  SECTION("float64, eps 1e-3") { check_training(Fixture("everything"), Bits::float64, {1e-10, 1e-10}); }
  // With a small eps the update of a tiny gradient is its rounding error divided by itself.
  SECTION("float32, eps 1e-3") { check_training(Fixture("everything"), Bits::float32, {1e-6, 1e-6}); }
}

}  // namespace
}  // namespace tessera::test

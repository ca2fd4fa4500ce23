// If this failed, Tessera's model would not compute what HuggingFace's Qwen3-MoE computes from the same checkpoint.
// Expected values: fixtures/, made by make_fixtures.py.
#include <fmt/format.h>

#include "comparison.h"
#include "support/about.h"
#include "support/catch.h"

namespace tessera::test {
namespace {

void check_agreement(const Fixture& fixture, const std::filesystem::path& weights, Bits bits) {
  const architecture::Architecture architecture(fixture.config(), fixture.balance());
  ComposedModel model(architecture, numbers_of(bits), fixture.z_loss_coef());
  load_weights(weights, architecture, model);
  const Outcome ours = run(architecture, model, fixture.batch());
  const auto found = differences(ours, fixture.expected(bits), bars_of(bits));
  CHECK(fmt::format("{}", fmt::join(found, "\n")) == "");
}

// If a folder were not found, its test would silently not run.
TEST_CASE("all 18 fixtures are there") { CHECK(Fixture::names().size() == 18); }

TEST_CASE("float32: logits, losses, top-k choices and every gradient are HuggingFace's") {
  for (const std::string& name : Fixture::names()) SECTION(name) {
      const Fixture fixture(name);
      check_agreement(fixture, fixture.folder() / "model.safetensors", Bits::float32);
    }
}

TEST_CASE("float64: logits, losses, top-k choices and every gradient are HuggingFace's to 1e-10") {
  for (const std::string& name : Fixture::names()) SECTION(name) {
      const Fixture fixture(name);
      check_agreement(fixture, fixture.folder() / "model.safetensors", Bits::float64);
    }
}

TEST_CASE("fused weights of a checkpoint give the same") {
  for (const std::string name : {"base", "everything"}) SECTION(name) {
      const Fixture fixture(name);
      check_agreement(fixture, fixture.folder() / "fused.safetensors", Bits::float64);
    }
}

TEST_CASE("parameters are counted as HuggingFace counts them") {
  for (const std::string& name : Fixture::names()) {
    INFO(name);
    const Fixture fixture(name);
    CHECK(architecture::Architecture(fixture.config(), fixture.balance()).total_parameters() ==
          fixture.num_parameters());
  }
}

TEST_CASE("the same batch in another order of sequences gives the same sums") {
  const Fixture fixture("base");
  const architecture::Architecture architecture(fixture.config(), fixture.balance());
  ComposedModel model(architecture, numbers_of(Bits::float64), fixture.z_loss_coef());
  load_weights(fixture.folder() / "model.safetensors", architecture, model);
  const Outcome before = run(architecture, model, fixture.batch());
  const double gradient = before.gradients.at("lm_head.weight").abs().sum().item<double>();
  Batch swapped = fixture.batch();
  const auto swap = [&](at::Tensor& tensor) { tensor = tensor.view({2, -1}).flip(0).reshape(-1); };
  swap(swapped.ids);
  swap(swapped.labels);
  const Outcome after = run(architecture, model, swapped);
  CHECK(after.loss == about(before.loss).epsilon(1e-12));
  CHECK(after.gradients.at("lm_head.weight").abs().sum().item<double>() == about(gradient).epsilon(1e-12));
}

}  // namespace
}  // namespace tessera::test

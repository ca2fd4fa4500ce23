// If this failed, the oracle tests would pass for a model with one of these faults.
#include <ATen/ops/add.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>

#include "comparison.h"
#include "ops/rotary.h"
#include "support/catch.h"

namespace tessera::test {
namespace {

using architecture::Step;
using K = architecture::ValueKind;

// A model that may be spoilt before it runs, in float32 (the looser bars) unless a fault is smaller than they are.
struct Subject {
  explicit Subject(const std::string& name, Bits format = Bits::float32)
      : bits(format), fixture(name), config(fixture.config()), batch(fixture.batch()) {}

  Bits bits;
  Fixture fixture;
  architecture::ModelConfig config;
  Batch batch;
  std::function<void(ComposedModel&)> spoil_weights = [](ComposedModel&) {};
  ComposedModel::Fault fault;
  double balance_factor = 1;

  [[nodiscard]] std::vector<std::string> differences_found() {
    config.router_aux_loss_coef *= balance_factor;
    const architecture::Architecture architecture(config, fixture.balance());
    ComposedModel model(architecture, numbers_of(bits), fixture.z_loss_coef());
    load_weights(fixture.folder() / "model.safetensors", architecture, model);
    spoil_weights(model);
    model.set_fault(fault);
    return differences(run(architecture, model, batch), fixture.expected(bits), bars_of(bits));
  }
};

// A fault that changes one value behind the segments that write it.
ComposedModel::Fault change(std::string_view segment, K kind, std::function<at::Tensor(const at::Tensor&)> changed) {
  return [=](const Step& step, model::Values& values) {
    if (step.kind != segment) return;
    at::Tensor& value = values.at({kind, step.layer});
    value = changed(value);
  };
}

TEST_CASE("without a fault the oracle finds no difference") {
  for (const char* name : {"base", "norm_topk_prob", "documents", "far_positions", "everything"})
    for (const Bits bits : {Bits::float32, Bits::float64}) CHECK(Subject(name, bits).differences_found().empty());
}

TEST_CASE("attention scores twice as large are found") {
  Subject subject("base");
  subject.fault = change("project", K::query, [](const at::Tensor& query) { return at::mul(query, 2); });
  CHECK_FALSE(subject.differences_found().empty());
}

TEST_CASE("a router whose softmax is taken twice is found") {
  Subject subject("base");
  subject.fault = [&subject](const Step& step, model::Values& values) {
    if (step.kind != "route") return;
    // A softmax over each token's slot weights, which were probabilities already.
    const std::int64_t k = subject.config.num_experts_per_tok;
    at::Tensor& weight = values.at({K::slot_weight, step.layer});
    const auto by_token = values.at({K::slot_choice, step.layer}).argsort();
    const at::Tensor again = at::softmax(weight.index_select(0, by_token).view({-1, k}), -1).reshape(-1);
    weight = again.index_select(0, by_token.argsort());
  };
  CHECK_FALSE(subject.differences_found().empty());
}

TEST_CASE("a transposed weight is found") {
  Subject subject("base");
  subject.spoil_weights = [](ComposedModel& model) {
    const at::Tensor& weight = model.parameter("model.layers.1.self_attn.o_proj.weight");
    weight.copy_(weight.t().contiguous().view(weight.sizes()));
  };
  CHECK_FALSE(subject.differences_found().empty());
}

TEST_CASE("a missing residual is found") {
  Subject subject("base");
  subject.fault = [](const Step& step, model::Values& values) {
    if (step.kind != "merge" || step.layer != 1) return;
    at::Tensor& hidden = values.at({K::hidden, step.layer + 1});
    hidden = at::sub(hidden, values.at({K::residual, step.layer}));
  };
  CHECK_FALSE(subject.differences_found().empty());
}

TEST_CASE("another epsilon of the norms is found") {
  Subject subject("base", Bits::float64);  // 1e-5 instead of 1e-6 is no more than float32's rounding
  subject.config.rms_norm_eps = 1e-5;
  CHECK_FALSE(subject.differences_found().empty());
}

TEST_CASE("keys turned by one position too many are found") {
  Subject subject("base");
  subject.fault = change("project", K::key, [&subject](const at::Tensor& key) {
    const at::Tensor ones = at::full_like(subject.batch.positions, 1);
    return ops::rotate(key, ops::rotary_tables(ones, subject.config.rope_theta, subject.config.head_dim, at::kFloat));
  });
  CHECK_FALSE(subject.differences_found().empty());
}

TEST_CASE("a balance loss that is counted twice is found") {
  Subject subject("base");
  subject.balance_factor = 2;
  CHECK_FALSE(subject.differences_found().empty());
}

TEST_CASE("positions that were rounded to bfloat16 are found") {
  for (const char* name : {"long_sequence", "far_positions"}) {
    Subject subject(name);
    subject.batch.positions = subject.batch.positions.to(at::kBFloat16).to(at::kLong);
    CHECK_FALSE(subject.differences_found().empty());
  }
}

TEST_CASE("a k-th slot weight that was not renormalised is found") {
  Subject subject("norm_topk_prob");
  subject.fault = [&subject](const Step& step, model::Values& values) {
    if (step.kind != "route") return;
    // The smallest weight of each token is multiplied by what it was divided by, made up here: 0.9.
    const std::int64_t k = subject.config.num_experts_per_tok;
    at::Tensor& weight = values.at({K::slot_weight, step.layer});
    const auto by_token = values.at({K::slot_choice, step.layer}).argsort();
    const at::Tensor rows = weight.index_select(0, by_token).view({-1, k});
    const at::Tensor least = std::get<0>(rows.min(-1, true));
    const at::Tensor raw = at::where(rows.eq(least), at::mul(rows, 0.9), rows).reshape(-1);
    weight = raw.index_select(0, by_token.argsort());
  };
  CHECK_FALSE(subject.differences_found().empty());
}

TEST_CASE("a mask whose borders are off by one is found") {
  Subject subject("documents");
  at::Tensor starts = subject.batch.attention_starts.clone();
  starts.slice(0, 1, starts.numel() - 1).add_(1);
  subject.batch.attention_starts = starts;
  CHECK_FALSE(subject.differences_found().empty());
}

TEST_CASE("a norm in bfloat16 is found") {
  Subject subject("base");
  subject.fault =
      change("route", K::normed, [](const at::Tensor& normed) { return normed.to(at::kBFloat16).to(at::kFloat); });
  CHECK_FALSE(subject.differences_found().empty());
}

}  // namespace
}  // namespace tessera::test

// If this failed, segments would not fit together: recomputation, micro-batches or experts of several owners would
// change values. test/oracle checks that the composed model is HuggingFace's.
#include "model/model.h"

#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <cmath>
#include <tuple>

#include "../moe/gelu_function.h"
#include "gelu_family.h"
#include "random_model.h"
#include "support/about.h"
#include "support/catch.h"

namespace tessera::model {
namespace {

using architecture::Architecture;
using architecture::Step;
using architecture::ValueId;
using config::BalanceLoss;
using test::all_float64;
using test::batch_of;
using test::ComposedModel;
using K = architecture::ValueKind;

double difference(const at::Tensor& a, const at::Tensor& b) {
  return at::sub(a, b).abs().max().item<double>() / std::max(b.abs().max().item<double>(), 1e-300);
}

// Of a step of `sequences` sequences of 5 tokens in one micro-step.
StepFacts facts_of(std::int64_t sequences, double balance_scale, double z_scale = 0) {
  const double tokens = static_cast<double>(sequences * 5);
  return {1 / tokens, balance_scale, tokens, z_scale};
}

std::map<std::string, at::Tensor> gradients_of(const Architecture& architecture, const ComposedModel& model) {
  std::map<std::string, at::Tensor> list;
  for (const base::ParameterSpec& parameter : architecture.parameters())
    list[parameter.fqn] = model.gradient(parameter.fqn).clone();
  return list;
}

namespace {

architecture::ModelConfig gelu_config() {
  auto config = test::small_config();
  config.family = &test::gelu_family();
  return config;
}

struct Sums {
  double cross_entropy = 0, balance = 0, z = 0;
};

Sums known(const HeadSums& sums) {
  return {sums.cross_entropy.item<double>(), sums.balance.item<double>(), sums.z.item<double>()};
}

}  // namespace

// At position 0 a head is not turned: what a layer makes of it there, turned by the formula, is what it makes of it
// anywhere.
TEST_CASE("a layer turns queries and keys by the exact angle at far positions, whatever type it computes in") {
  const Architecture architecture(test::small_config(), BalanceLoss::sequence);
  const auto& config = architecture.config();
  const std::vector<std::int64_t> far{257, 511, 4095, 32767, 262143};
  for (const auto& [numbers, unit, unit_of_tables] :
       {std::tuple{all_float64, 0x1p-53, 0x1p-53},
        {device::Numbers{at::kFloat, at::kFloat, at::kFloat}, 0x1p-24, 0x1p-24},
        {device::Numbers{at::kBFloat16, at::kFloat, at::kFloat}, 0x1p-9, 0x1p-24}}) {
    ComposedModel model(architecture, numbers);
    test::fill_weights(architecture, model);
    auto batch = batch_of(0, 1);
    const auto heads_at = [&](const std::vector<std::int64_t>& positions, K kind) {
      batch.positions = at::tensor(positions, at::kLong);
      model.evaluate(batch, facts_of(1, 1));
      return model.value(kind, 0).to(at::kDouble);  // [5, heads, head_dim]
    };
    for (const auto kind : {K::query, K::key}) {
      const auto still = heads_at({0, 0, 0, 0, 0}, kind), turned = heads_at(far, kind);
      const auto half = config.head_dim / 2;
      for (std::int64_t t = 0; t < 5; ++t)
        for (std::int64_t i = 0; i < half; ++i) {
          const auto angle = static_cast<long double>(far[static_cast<std::size_t>(t)]) *
                             std::pow(static_cast<long double>(config.rope_theta),
                                      -2.0L * static_cast<long double>(i) / static_cast<long double>(config.head_dim));
          const double a = still[t][1][i].item<double>(), b = still[t][1][i + half].item<double>();
          const auto expected = static_cast<double>(a * std::cos(angle) - b * std::sin(angle));
          CAPTURE(at::toString(numbers.compute), static_cast<int>(kind), far[static_cast<std::size_t>(t)], i);
          REQUIRE(turned[t][1][i].item<double>() ==
                  test::about(expected).margin(4 * unit * std::abs(expected) + 4 * unit_of_tables *
                                                                                   (static_cast<double>(angle) + 1) *
                                                                                   (std::abs(a) + std::abs(b))));
        }
    }
  }
}

TEST_CASE("three micro-batches of one sequence add up to one of three") {
  const Architecture architecture(test::small_config(), BalanceLoss::sequence);
  ComposedModel model(architecture, all_float64);
  test::fill_weights(architecture, model);
  const Sums whole = known(model.train(batch_of(0, 3), facts_of(3, 1.0 / 3)));
  const auto expected = gradients_of(architecture, model);
  model.zero_gradients();
  Sums parts;
  for (std::int64_t sequence = 0; sequence < 3; ++sequence) {
    const Sums part = known(model.train(batch_of(sequence, 1), facts_of(3, 1.0 / 3)));
    parts.cross_entropy += part.cross_entropy;
    parts.balance += part.balance;
  }
  CHECK(parts.cross_entropy == test::about(whole.cross_entropy).epsilon(1e-12));
  CHECK(parts.balance == test::about(whole.balance).epsilon(1e-12));
  for (const auto& [fqn, gradient] : expected) {
    INFO(fqn);
    CHECK(difference(model.gradient(fqn), gradient) < 1e-12);
  }
}

TEST_CASE("a micro-batch without tokens gives no loss and no gradient") {
  for (const BalanceLoss balance : {BalanceLoss::pooled, BalanceLoss::per_layer, BalanceLoss::sequence}) {
    const Architecture architecture(test::small_config(), balance);
    ComposedModel model(architecture, all_float64);
    test::fill_weights(architecture, model);
    const Sums sums = known(model.train(batch_of(0, 0), {0.25, 1, 0, 0.5}));
    CHECK(sums.cross_entropy == 0);
    CHECK(sums.balance == 0);
    CHECK(sums.z == 0);
    for (const auto& [fqn, gradient] : gradients_of(architecture, model)) CHECK(gradient.eq(0).all().item<bool>());
  }
}

TEST_CASE("evaluation gives the sums of training and touches no gradient") {
  const Architecture architecture(test::small_config(), BalanceLoss::pooled);
  ComposedModel model(architecture, all_float64);
  test::fill_weights(architecture, model);
  const Sums evaluated = known(model.evaluate(batch_of(0, 3), facts_of(3, 1, 1)));
  for (const auto& [fqn, gradient] : gradients_of(architecture, model)) CHECK(gradient.eq(0).all().item<bool>());
  const Sums trained = known(model.train(batch_of(0, 3), facts_of(3, 1, 1)));
  CHECK(evaluated.cross_entropy == test::about(trained.cross_entropy).epsilon(1e-13));
  CHECK(evaluated.balance == test::about(trained.balance).epsilon(1e-13));
  CHECK(evaluated.z == test::about(trained.z).epsilon(1e-13));
}

TEST_CASE("the balance loss of a balanced router is k, in each of its forms") {
  architecture::ModelConfig config = test::small_config();
  config.num_experts = config.num_experts_per_tok = 3;
  for (const BalanceLoss balance : {BalanceLoss::pooled, BalanceLoss::per_layer, BalanceLoss::sequence}) {
    const Architecture architecture(config, balance);
    ComposedModel model(architecture, all_float64);
    test::fill_weights(architecture, model);
    const double scale = balance == BalanceLoss::sequence ? 1.0 / 3 : 1.0;
    CHECK(known(model.evaluate(batch_of(0, 3), facts_of(3, scale))).balance == test::about(3).epsilon(1e-12));
  }
}

TEST_CASE("the router z-loss is the mean square of logsumexp over tokens and layers") {
  const Architecture architecture(test::small_config(), BalanceLoss::pooled);
  ComposedModel model(architecture, all_float64, 0.5);
  test::fill_weights(architecture, model);
  const Sums sums = known(model.evaluate(batch_of(0, 3), facts_of(3, 1, 1.0 / (15 * 2))));
  double expected = 0;
  for (const std::int32_t layer : {0, 2}) {
    const at::Tensor& router = model.parameter(architecture::layer_fqn(layer, "mlp.gate.weight"));
    const at::Tensor logits = at::matmul(model.value(K::normed, layer), router.t());
    expected += at::logsumexp(logits, {1}).pow(2).sum().item<double>() / (15 * 2);
  }
  CHECK(sums.z == test::about(expected).epsilon(1e-12));
  const double loss = model.value(K::loss).item<double>();
  CHECK(loss == test::about(sums.cross_entropy / 15 + 0.1 * sums.balance + 0.5 * sums.z).epsilon(1e-12));
}

// Checks one element of each parameter by central differences, balance and z-loss included.
void check_derivatives(const architecture::ModelConfig& config) {
  for (const BalanceLoss balance : {BalanceLoss::pooled, BalanceLoss::per_layer, BalanceLoss::sequence}) {
    const Architecture architecture(config, balance);
    ComposedModel model(architecture, all_float64, 0.5, {&test::gelu()});
    test::fill_weights(architecture, model);
    const StepFacts facts = facts_of(3, 0.75, 1.0 / 30);
    static_cast<void>(model.train(batch_of(0, 3), facts));
    const auto loss_at = [&](const at::Tensor& element, double value) {
      element.fill_(value);
      static_cast<void>(model.evaluate(batch_of(0, 3), facts));
      return model.value(K::loss).item<double>();
    };
    for (const base::ParameterSpec& parameter : architecture.parameters()) {
      INFO(parameter.fqn);
      const std::int64_t index = base::elements(parameter) / 2;
      const at::Tensor element = model.parameter(parameter.fqn).view(-1).select(0, index);
      const double gradient = model.gradient(parameter.fqn).view(-1).select(0, index).item<double>();
      const double at_rest = element.item<double>();
      constexpr double step = 1e-5;
      const double slope = (loss_at(element, at_rest + step) - loss_at(element, at_rest - step)) / (2 * step);
      element.fill_(at_rest);
      CHECK(gradient == test::about(slope).epsilon(1e-6).margin(1e-9));
    }
  }
}

TEST_CASE("gradients are derivatives of the loss, balance and z-loss included") {
  check_derivatives(test::small_config());
}

TEST_CASE("a family whose experts have another body, with biases, has derivatives of the loss for gradients too") {
  check_derivatives(gelu_config());
}

TEST_CASE("a body without a function is refused when the model is made") {
  const Architecture architecture(gelu_config(), BalanceLoss::pooled);
  CHECK_THROWS_WITH(Model(architecture, all_float64, 0, {}),
                    Catch::Matchers::ContainsSubstring("the function gelu of experts[0] has no kernel"));
}

// The steps of one layer, and weights for them in plain memory.
struct Layer {
  Layer(const Architecture& architecture, std::int32_t index) {
    for (const Step& step : architecture.steps())
      if (step.layer == index && step.type == Step::Type::segment) steps[step.kind] = step;
  }
  std::map<std::string_view, Step> steps;
};

// Weights of the experts [first, last) of `model`.
struct LocalExperts {
  LocalExperts(const ComposedModel& model, const Step& step, std::int64_t first, std::int64_t last) {
    for (const architecture::ParameterUse& use : step.uses) {
      const at::Tensor local = model.parameter(use.use.fqn).slice(0, first, last);
      auto weight = std::make_unique<device::Weight>(local.sizes().vec(), at::kDouble, at::kDouble);
      weight->bind_value(local.mutable_data_ptr());
      in_order.push_back(weight.get());
      owned.push_back(std::move(weight));
    }
  }
  Weights in_order;
  std::vector<std::unique_ptr<device::Weight>> owned;
};

TEST_CASE("experts of several owners give what one owner gives, whatever their body") {
  const c10::AutoGradMode no_gradients(false);
  const Architecture architecture(GENERATE(test::small_config(), gelu_config()), BalanceLoss::pooled);
  ComposedModel composed(architecture, all_float64, 0, {&test::gelu()});
  test::fill_weights(architecture, composed);
  static_cast<void>(composed.evaluate(batch_of(0, 3), facts_of(3, 1)));
  const Layer layer(architecture, 2);
  const std::vector<std::int64_t> bounds{0, 3, 6, 7, 7};  // the last owner has none
  const Model model(architecture, all_float64, 0, {{layer.steps.at("pack").owned, {.bounds = bounds}}},
                    {&test::gelu()});

  Values values;
  for (const K kind : {K::normed, K::slot_token, K::slot_choice, K::slot_weight, K::slot_count, K::residual})
    values[{kind, 2}] = composed.value(kind, 2);
  model.run(layer.steps.at("pack"), values, {});
  const at::Tensor row_count = values.at({K::row_count, 2});
  REQUIRE(row_count.numel() == 4);
  CHECK(row_count[3].item<std::int64_t>() == 0);
  CHECK(row_count.sum().item<std::int64_t>() < values.at({K::slot_token, 2}).numel());  // one row for several experts

  std::vector<at::Tensor> returned;
  std::int64_t row = 0, slot = 0;
  for (std::size_t owner = 0; owner < 4; ++owner) {
    const std::int64_t first = bounds[owner], last = bounds[owner + 1];
    const at::Tensor counts = values.at({K::expert_count, 2}).slice(0, first, last);
    const std::int64_t rows = row_count[static_cast<std::int64_t>(owner)].item<std::int64_t>();
    const std::int64_t slots = counts.sum().item<std::int64_t>();
    Values received{{{K::rows, 2}, values.at({K::send_rows, 2}).slice(0, row, row + rows)},
                    {{K::weight, 2}, values.at({K::send_weight, 2}).slice(0, slot, slot + slots)},
                    {{K::slot, 2}, values.at({K::send_slot, 2}).slice(0, slot, slot + slots)},
                    {{K::source_row_count, 2}, at::tensor({rows})},
                    {{K::source_expert_count, 2}, counts.unsqueeze(0)}};
    const LocalExperts experts(composed, layer.steps.at("experts"), first, last);
    model.run(layer.steps.at("experts"), received, experts.in_order);
    returned.push_back(received.at({K::expert_rows, 2}));
    row += rows;
    slot += slots;
  }
  values[{K::combined_rows, 2}] = at::cat(returned);
  model.run(layer.steps.at("merge"), values, {});
  CHECK(difference(values.at({K::hidden, 3}), composed.value(K::hidden, 3)) < 1e-12);
}

TEST_CASE("slots that are already there are kept, also if the router would now choose others") {
  const Architecture architecture(test::small_config(), BalanceLoss::pooled);
  ComposedModel composed(architecture, all_float64);
  test::fill_weights(architecture, composed);
  static_cast<void>(composed.evaluate(batch_of(0, 3), facts_of(3, 1)));
  const Layer layer(architecture, 0);
  const Model model(architecture, all_float64, 0, {});

  const std::string router_name = architecture::layer_fqn(0, "mlp.gate.weight");
  const std::string norm_name = architecture::layer_fqn(0, "post_attention_layernorm.weight");
  device::Weight router({7, 15}, at::kDouble, at::kDouble), norm({15}, at::kDouble, at::kDouble);
  const at::Tensor other_router = composed.parameter(router_name).neg();
  router.bind_value(other_router.mutable_data_ptr());
  norm.bind_value(composed.parameter(norm_name).mutable_data_ptr());
  const Weights weights{&norm, &router};

  const c10::AutoGradMode no_gradients(false);
  Values values = composed.values();
  model.run(layer.steps.at("route"), values, weights);
  model.run(layer.steps.at("pack"), values, {});
  for (const K kind : {K::slot_token, K::slot_choice, K::slot_count, K::router_count, K::expert_count, K::row_token,
                       K::row_count, K::send_slot})
    CHECK(values.at({kind, 0}).is_same(composed.value(kind, 0)));
  CHECK_FALSE(at::equal(values.at({K::slot_weight, 0}), composed.value(K::slot_weight, 0)));
}

TEST_CASE("a segment names the value that it misses") {
  const Architecture architecture(test::small_config(), BalanceLoss::pooled);
  const Model model(architecture, all_float64, 0, {});
  const Layer layer(architecture, 2);
  Values values{{{K::combined_rows, 2}, at::Tensor()}, {{K::row_token, 2}, at::Tensor()}};
  CHECK_THROWS_WITH(model.run(layer.steps.at("merge"), values, {}),
                    Catch::Matchers::ContainsSubstring("merge[2] reads residual[2], which nobody wrote"));
  CHECK_THROWS_AS(model.run(architecture.steps().back(), values, {}), std::logic_error);
  CHECK_THROWS_AS(model.run(architecture.steps()[1], values, {}), std::logic_error);
}

}  // namespace
}  // namespace tessera::model

// If this failed, weights would be updated differently than by torch.optim, or a part of the model would not be
// updated.
// Fixture: test/oracle/make_optimizer.py.
#include "optim/optimizer.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "optim/gradient_norm.h"
#include "support/about.h"
#include "support/catch.h"

namespace tessera::optim {
namespace {

using Json = nlohmann::json;

DecayGroups groups_of(const std::vector<base::ParameterSpec>& parameters) {
  base::Problems problems;
  return group_by_decay(parameters, {}, problems);
}

at::Tensor tensor_of(const Json& numbers, const Json& shape, at::ScalarType type) {
  return at::tensor(numbers.get<std::vector<double>>(), at::kDouble)
      .view(shape.get<std::vector<std::int64_t>>())
      .to(type);
}

config::OptimizerSettings settings_of(const Json& json) {
  config::OptimizerSettings s;
  s.type = json["type"] == "adamw" ? config::OptimizerType::adamw : config::OptimizerType::sgd;
  s.lr = json["lr"];
  s.betas = json["betas"].get<std::vector<double>>();
  s.eps = json["eps"];
  s.weight_decay = json["weight_decay"];
  s.momentum = json["momentum"];
  s.max_grad_norm = json["max_grad_norm"];
  return s;
}

double step_with_clipping(Optimizer& optimizer, const config::OptimizerSettings& s) {
  std::vector<GroupedGradient> gradients;
  for (const OptimizedShard& shard : optimizer.shards()) gradients.push_back({&shard.gradient, 0});
  const double norm = finish_norms(norm_parts(gradients, 1, s.norm_type), s.norm_type).total;
  optimizer.step(s.lr, clip_factor(norm, s.max_grad_norm));
  return norm;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

TEST_CASE("three clipped steps give the weights of torch.optim") {
  const auto path = std::filesystem::path(TESSERA_SOURCE_DIR) / "test/oracle/optimizer.json";
  const base::JsonDocument document = base::parse_json_file(path, base::JsonComments::refused);
  for (const auto& [name, one] : document.value().items()) {
    CAPTURE(name);
    const auto type = one["settings"]["dtype"] == "float64" ? at::kDouble : at::kFloat;
    const auto s = settings_of(one["settings"]);
    std::vector<base::ParameterSpec> specs;
    std::vector<OptimizedShard> shards;
    for (const auto& [fqn, parameter] : one["parameters"].items()) {
      specs.push_back({fqn, parameter["shape"].get<std::vector<std::int64_t>>()});
      const at::Tensor master = tensor_of(parameter["first"], parameter["shape"], type);
      shards.push_back({fqn, master, at::zeros_like(master)});
    }
    Optimizer optimizer(s, groups_of(specs), shards);
    const double tolerance = type == at::kDouble ? 1e-14 : 1e-6;
    for (std::size_t step = 0; step < 3; ++step) {
      for (const OptimizedShard& shard : shards)
        shard.gradient.copy_(
            tensor_of(one["parameters"][shard.fqn]["gradients"][step], one["parameters"][shard.fqn]["shape"], type));
      CHECK(step_with_clipping(optimizer, s) == test::about(one["norms"][step].get<double>()).epsilon(1e-6));
      for (const OptimizedShard& shard : shards) {
        const Json& parameter = one["parameters"][shard.fqn];
        CHECK(largest_difference(shard.master, tensor_of(parameter["values"][step], parameter["shape"], type)) <
              tolerance);
      }
    }
    CHECK(optimizer.steps() == 3);
  }
}

TEST_CASE("without gradient, decay shrinks matrices and leaves norms") {
  for (const auto kind : {config::OptimizerType::adamw, config::OptimizerType::sgd}) {
    config::OptimizerSettings s;
    s.type = kind;
    s.weight_decay = 0.1;
    const at::Tensor matrix = at::ones({3, 5}), norm = at::ones({7});
    Optimizer optimizer(s, groups_of({{"m", {3, 5}}, {"n", {7}}}),
                        {{"m", matrix, at::zeros({3, 5})}, {"n", norm, at::zeros({7})}});
    optimizer.step(0.1, 1.0);
    CHECK(largest_difference(matrix, at::full({3, 5}, 0.99)) < 1e-7);
    CHECK(at::equal(norm, at::ones({7})));
  }
}

TEST_CASE("float32 masters keep small steps that bfloat16 would lose") {
  config::OptimizerSettings s;
  const at::Tensor norm = at::ones({7}), gradient = at::full({7}, 0.3);
  Optimizer optimizer(s, groups_of({{"n", {7}}}), {{"n", norm, gradient}});
  for (int step = 0; step < 10; ++step) optimizer.step(1e-3, 1.0);
  CHECK(largest_difference(norm, at::full({7}, 0.99)) < 1e-5);
}

TEST_CASE("state exists from the start for every shard, also for one that never gets a gradient or is empty") {
  config::OptimizerSettings s;
  const std::vector<OptimizedShard> shards{{"a", at::ones({2, 3}), at::zeros({2, 3})},
                                           {"b", at::ones({0, 3}), at::zeros({0, 3})},
                                           {"c", at::ones({5}, at::kFloat), at::zeros({5})}};
  const DecayGroups groups = groups_of({{"a", {2, 3}}, {"b", {2, 3}}, {"c", {5}}});
  const auto names = [](const Optimizer& optimizer) {
    std::vector<std::string> list;
    for (const StateTensor& state : optimizer.state()) list.push_back(state.fqn + "." + state.name);
    return list;
  };
  Optimizer adamw(s, groups, shards);
  CHECK(names(adamw) == std::vector<std::string>{"a.exp_avg", "a.exp_avg_sq", "b.exp_avg", "b.exp_avg_sq", "c.exp_avg",
                                                 "c.exp_avg_sq"});
  for (const StateTensor& state : adamw.state()) CHECK(at::equal(state.tensor, at::zeros_like(state.tensor)));
  CHECK(adamw.state()[2].tensor.sizes() == at::IntArrayRef({0, 3}));
  adamw.step(1e-3, 0.5);
  s.type = config::OptimizerType::sgd;
  CHECK(names(Optimizer(s, groups, shards)).empty());
  s.momentum = 0.9;
  CHECK(names(Optimizer(s, groups, shards)) ==
        std::vector<std::string>{"a.momentum_buffer", "b.momentum_buffer", "c.momentum_buffer"});
}

TEST_CASE("an optimizer restored from its state goes on with the same bits") {
  const config::OptimizerSettings s;
  const DecayGroups groups = groups_of({{"m", {3, 5}}});
  const auto gradient = [](int step) { return at::full({3, 5}, std::sin(step)); };
  OptimizedShard whole{"m", at::ones({3, 5}), at::zeros({3, 5})};
  Optimizer straight(s, groups, {whole});
  for (int step = 0; step < 3; ++step) {
    whole.gradient.copy_(gradient(step));
    straight.step(1e-2, 0.7);
  }
  OptimizedShard half{"m", whole.master.clone(), at::zeros({3, 5})};
  Optimizer resumed(s, groups, {half});
  for (std::size_t i = 0; i < 2; ++i) resumed.state()[i].tensor.copy_(straight.state()[i].tensor);
  resumed.set_steps(straight.steps());
  whole.gradient.copy_(gradient(3));
  half.gradient.copy_(gradient(3));
  straight.step(1e-2, 1.0);
  resumed.step(1e-2, 1.0);
  CHECK(at::equal(whole.master, half.master));
}

TEST_CASE("a factor of zero is a step without gradient") {
  for (const auto type : {at::kFloat, at::kDouble}) {
    config::OptimizerSettings s;
    s.type = config::OptimizerType::sgd;
    const at::Tensor matrix = at::ones({3, 5}, type);
    Optimizer optimizer(s, groups_of({{"m", {3, 5}}}), {{"m", matrix, at::ones({3, 5}, type)}});
    optimizer.step(0.5, 0.0);
    CHECK(at::equal(matrix, at::ones({3, 5}, type)));
    CHECK_THROWS_AS(optimizer.step(0.5, std::nan("")), std::logic_error);
  }
}

TEST_CASE("a parameter that no shard owns, or two do, or that does not fit its gradient, is found at once") {
  const config::OptimizerSettings s;
  const DecayGroups groups = groups_of({{"m", {3, 5}}, {"n", {7}}});
  const OptimizedShard m{"m", at::ones({3, 5}), at::zeros({3, 5})}, n{"n", at::ones({7}), at::zeros({7})};
  CHECK_NOTHROW(Optimizer(s, groups, {m, n}));
  CHECK_THROWS_WITH(Optimizer(s, groups, {m}), Catch::Matchers::Contains("n is not owned by the optimizer"));
  CHECK_THROWS_WITH(Optimizer(s, groups, {m, n, m}), Catch::Matchers::Contains("m is given to the optimizer twice"));
  CHECK_THROWS_AS(Optimizer(s, groups, {m, n, {"x", n.master, n.gradient}}), std::logic_error);
  CHECK_THROWS_AS(Optimizer(s, groups, {m, {"n", at::ones({7}), at::zeros({6})}}), std::logic_error);
  CHECK_THROWS_AS(Optimizer(s, groups, {m, {"n", at::ones({7}), at::zeros({7}, at::kDouble)}}), std::logic_error);
  CHECK_THROWS_AS(Optimizer(s, groups, {m, {"n", at::ones({7}, at::kBFloat16), at::zeros({7}, at::kBFloat16)}}),
                  std::logic_error);
}

}  // namespace
}  // namespace tessera::optim

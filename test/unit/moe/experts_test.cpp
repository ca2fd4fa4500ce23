// If this failed, experts would compute wrong functions, or their gradients would miss slots.
#include "moe/experts.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/silu.h>

#include "gelu_function.h"
#include "support/gradient_check.h"

using namespace tessera;
using moe::ExpertOrder;
using ops::GroupedPath;
using test::BoundWeight;
using test::distance;
using test::integers;
using test::relative_distance;
using test::varied;

namespace {

struct Stacks {
  BoundWeight gate, up, down;
  Stacks(std::int64_t experts, std::int64_t inner, std::int64_t hidden, at::ScalarType type = at::kDouble)
      : gate(varied({experts, inner, hidden}, 11, type)),
        up(varied({experts, inner, hidden}, 12, type)),
        down(varied({experts, hidden, inner}, 13, type)) {}
  [[nodiscard]] moe::ExpertWeights weights() { return {{gate.pointer(), up.pointer()}, {}, down.pointer()}; }
  [[nodiscard]] std::vector<BoundWeight*> all() { return {&gate, &up, &down}; }
};

// Slot by slot, in float64.
at::Tensor reference(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order, const Stacks& stacks) {
  auto result = at::zeros(rows.sizes(), at::TensorOptions(at::kDouble));
  const auto wide = [](const at::Tensor& x) { return x.detach().to(at::kDouble); };
  std::int64_t slot = 0;
  for (std::int64_t e = 0; e < order.count.numel(); ++e) {
    for (auto left = order.count[e].item<std::int64_t>(); left > 0; --left, ++slot) {
      const auto row = order.row[slot].item<std::int64_t>();
      const auto place = order.slot.defined() ? order.slot[slot].item<std::int64_t>() : slot;
      const auto x = wide(rows)[row];
      const auto a =
          at::silu(at::matmul(wide(stacks.gate.value())[e], x)).mul(at::matmul(wide(stacks.up.value())[e], x));
      result[row].add_(at::matmul(wide(stacks.down.value())[e], a).mul(wide(weight)[place]));
    }
  }
  return result;
}

at::Tensor run(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order, Stacks& stacks,
               GroupedPath path = GroupedPath::per_group) {
  return moe::run_experts(rows, weight, order, stacks.weights(), moe::swiglu(), path);
}

}  // namespace

TEST_CASE("each row gets the weighted sum of its experts, with gradients by central differences") {
  auto rows = varied({5, 3}, 1), weight = varied({7}, 2);
  Stacks stacks(4, 7, 3);
  const ExpertOrder order{integers({0, 4, 1, 0, 1, 2, 4}), {}, integers({2, 0, 1, 4})};
  CHECK(distance(run(rows, weight, order, stacks), reference(rows, weight, order, stacks)) < 1e-13);
  test::check_gradients([&] { return test::probe(run(rows, weight, order, stacks)); }, {rows, weight}, stacks.all());
  CHECK(stacks.gate.gradient()[1].abs().max().item<double>() == 0);
  CHECK(run(rows, weight, order, stacks)[3].abs().max().item<double>() == 0);
}

TEST_CASE("weights and their gradients keep the received order of several sources") {
  auto rows = varied({4, 3}, 1), weight = varied({5}, 2);
  Stacks stacks(2, 5, 3);
  const ExpertOrder order{integers({0, 2, 1, 3, 0}), integers({0, 3, 1, 4, 2}), integers({2, 3})};
  CHECK(distance(run(rows, weight, order, stacks), reference(rows, weight, order, stacks)) < 1e-13);
  test::check_gradients([&] { return test::probe(run(rows, weight, order, stacks)); }, {rows, weight}, stacks.all());
}

TEST_CASE("an expert with more slots than it takes at once") {
  const std::int64_t n = 1201;
  auto rows = varied({n, 3}, 1).set_requires_grad(true), weight = varied({n}, 2).set_requires_grad(true);
  Stacks stacks(1, 5, 3);
  const ExpertOrder order{at::arange(n, at::TensorOptions(at::kLong)), {}, integers({n})};
  const auto result = run(rows, weight, order, stacks);
  CHECK(distance(result, reference(rows, weight, order, stacks)) < 1e-12);
  test::probe(result).backward();
  // The same by autograd.
  auto plain_rows = rows.detach().clone().set_requires_grad(true),
       plain_weight = weight.detach().clone().set_requires_grad(true);
  auto gate = stacks.gate.value()[0].clone().set_requires_grad(true),
       down = stacks.down.value()[0].clone().set_requires_grad(true);
  const auto a = at::silu(at::matmul(plain_rows, gate.t())).mul(at::matmul(plain_rows, stacks.up.value()[0].t()));
  test::probe(at::matmul(a, down.t()).mul(plain_weight.unsqueeze(1))).backward();
  CHECK(distance(rows.grad(), plain_rows.grad()) < 1e-12);
  CHECK(distance(weight.grad(), plain_weight.grad()) < 1e-12);
  CHECK(distance(stacks.gate.gradient()[0], gate.grad()) < 1e-10);
  CHECK(distance(stacks.down.gradient()[0], down.grad()) < 1e-10);
}

TEST_CASE("no slots, and no rows, give zeros and zero gradients") {
  Stacks stacks(3, 5, 4);
  for (const std::int64_t n : {0, 2}) {
    for (const auto path : {GroupedPath::per_group, GroupedPath::grouped_mm}) {
      auto rows = varied({n, 4}, 1).set_requires_grad(true), weight = varied({0}, 2).set_requires_grad(true);
      const auto result = run(rows, weight, {integers({}), {}, integers({0, 0, 0})}, stacks, path);
      CHECK(result.sizes() == at::IntArrayRef({n, 4}));
      CHECK(result.abs().sum().item<double>() == 0);
      result.sum().backward();
      CHECK(rows.grad().abs().sum().item<double>() == 0);
      CHECK(weight.grad().numel() == 0);
      CHECK(stacks.up.gradient().abs().max().item<double>() == 0);
    }
  }
}

TEST_CASE("both paths follow float64 in float32 and bfloat16, gradients included") {
  const ExpertOrder order{integers({0, 4, 1, 0, 1, 2, 4}), integers({6, 5, 4, 3, 2, 1, 0}), integers({2, 0, 1, 4})};
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    Stacks narrow(4, 16, 8, type), exact_stacks(4, 16, 8, at::kDouble);  // of the same, rounded, numbers
    for (std::size_t k = 0; k < 3; ++k) exact_stacks.all()[k]->value().copy_(narrow.all()[k]->value().to(at::kDouble));
    auto exact_rows = varied({5, 8}, 1, type).to(at::kDouble).set_requires_grad(true);
    auto exact_weight = varied({7}, 2, at::kFloat).to(at::kDouble).set_requires_grad(true);
    test::probe(run(exact_rows, exact_weight, order, exact_stacks)).backward();
    for (const auto path : {GroupedPath::per_group, GroupedPath::grouped_mm}) {
      Stacks stacks(4, 16, 8, type);
      auto rows = varied({5, 8}, 1, type).set_requires_grad(true),
           weight = varied({7}, 2, at::kFloat).set_requires_grad(true);
      const auto result = run(rows, weight, order, stacks, path);
      CHECK(result.scalar_type() == type);
      // Twice the distance of two neighbours: a result is rounded several times on its way, each time by up to half of
      // it.
      const double tolerance = type == at::kFloat ? 0x1p-22 : 0x1p-7;
      CHECK(relative_distance(result, reference(rows, weight, order, exact_stacks)) < tolerance);
      test::probe(result).backward();
      CHECK(relative_distance(rows.grad(), exact_rows.grad()) < tolerance);
      CHECK(relative_distance(weight.grad(), exact_weight.grad()) < tolerance);
      CHECK(relative_distance(stacks.gate.gradient(), exact_stacks.gate.gradient()) < tolerance);
      CHECK(relative_distance(stacks.up.gradient(), exact_stacks.up.gradient()) < tolerance);
      CHECK(relative_distance(stacks.down.gradient(), exact_stacks.down.gradient()) < tolerance);
    }
  }
}

TEST_CASE("experts that were freed and gathered elsewhere give the same gradients, with the same bits") {
  auto rows = varied({5, 3}, 1).set_requires_grad(true), weight = varied({7}, 2).set_requires_grad(true);
  Stacks stacks(4, 7, 3);
  const ExpertOrder order{integers({0, 4, 1, 0, 1, 2, 4}), {}, integers({2, 0, 1, 4})};
  const auto gradients = [&](bool move) {
    rows.mutable_grad().reset();
    weight.mutable_grad().reset();
    for (auto* stack : stacks.all()) stack->zero_gradient();
    const auto loss = test::probe(run(rows, weight, order, stacks));
    for (auto* stack : stacks.all()) {
      if (!move) continue;
      stack->free();
      stack->gather();
    }
    loss.backward();
    return std::vector<at::Tensor>{rows.grad(), weight.grad(), stacks.gate.gradient().clone(),
                                   stacks.up.gradient().clone(), stacks.down.gradient().clone()};
  };
  const auto stayed = gradients(false), moved = gradients(true);
  for (std::size_t i = 0; i < stayed.size(); ++i) CHECK(distance(stayed[i], moved[i]) == 0);
}

TEST_CASE("without autograd nothing requires a gradient and the result is the same") {
  const auto rows = varied({5, 3}, 1), weight = varied({7}, 2);
  Stacks stacks(4, 7, 3);
  const ExpertOrder order{integers({0, 4, 1, 0, 1, 2, 4}), {}, integers({2, 0, 1, 4})};
  const auto with_graph = run(rows, weight, order, stacks);
  CHECK(with_graph.requires_grad());
  const at::NoGradGuard no_graph;
  const auto without = run(rows, weight, order, stacks);
  CHECK_FALSE(without.requires_grad());
  CHECK(distance(with_graph, without) == 0);
}

// ---- Another function, with biases ----

namespace {

struct GeluStacks {
  BoundWeight into, into_bias, out, out_bias;
  GeluStacks(std::int64_t experts, std::int64_t inner, std::int64_t hidden, at::ScalarType type = at::kDouble)
      : into(varied({experts, inner, hidden}, 21, type)),
        into_bias(varied({experts, inner}, 22, type)),
        out(varied({experts, hidden, inner}, 23, type)),
        out_bias(varied({experts, hidden}, 24, type)) {}
  [[nodiscard]] std::vector<BoundWeight*> all() { return {&into, &into_bias, &out, &out_bias}; }
  [[nodiscard]] at::Tensor run(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                               GroupedPath path = GroupedPath::per_group) {
    return moe::run_experts(rows, weight, order,
                            {{into.pointer()}, {into_bias.pointer()}, out.pointer(), out_bias.pointer()}, test::gelu(),
                            path);
  }
  // Slot by slot, in float64.
  [[nodiscard]] at::Tensor reference(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order) const {
    const auto wide = [](const at::Tensor& x) { return x.detach().to(at::kDouble); };
    auto result = at::zeros(rows.sizes(), at::TensorOptions(at::kDouble));
    std::int64_t slot = 0;
    for (std::int64_t e = 0; e < order.count.numel(); ++e)
      for (auto left = order.count[e].item<std::int64_t>(); left > 0; --left, ++slot) {
        const auto row = order.row[slot].item<std::int64_t>();
        const auto place = order.slot.defined() ? order.slot[slot].item<std::int64_t>() : slot;
        const auto inner = at::matmul(wide(into.value())[e], wide(rows)[row]).add(wide(into_bias.value())[e]);
        const auto y = at::matmul(wide(out.value())[e], at::gelu(inner)).add(wide(out_bias.value())[e]);
        result[row].add_(y.mul(wide(weight)[place]));
      }
    return result;
  }
};

}  // namespace

TEST_CASE("experts of another function with biases have the gradients of central differences") {
  auto rows = varied({5, 3}, 1), weight = varied({7}, 2);
  GeluStacks stacks(4, 7, 3);
  const ExpertOrder order{integers({0, 4, 1, 0, 1, 2, 4}), integers({6, 5, 4, 3, 2, 1, 0}), integers({2, 0, 1, 4})};
  CHECK(distance(stacks.run(rows, weight, order), stacks.reference(rows, weight, order)) < 1e-13);
  test::check_gradients([&] { return test::probe(stacks.run(rows, weight, order)); }, {rows, weight}, stacks.all());
  for (const auto* stack : {&stacks.into_bias, &stacks.out_bias})
    CHECK(stack->gradient()[1].abs().max().item<double>() == 0);  // the expert without slots
}

TEST_CASE("both paths of another function with biases follow float64 in float32 and bfloat16") {
  const ExpertOrder order{integers({0, 4, 1, 0, 1, 2, 4}), integers({6, 5, 4, 3, 2, 1, 0}), integers({2, 0, 1, 4})};
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    GeluStacks exact(4, 16, 8, type), wide(4, 16, 8);
    for (std::size_t k = 0; k < 4; ++k) wide.all()[k]->value().copy_(exact.all()[k]->value().to(at::kDouble));
    auto wide_rows = varied({5, 8}, 1, type).to(at::kDouble).set_requires_grad(true);
    auto wide_weight = varied({7}, 2, at::kFloat).to(at::kDouble).set_requires_grad(true);
    test::probe(wide.run(wide_rows, wide_weight, order)).backward();
    for (const auto path : {GroupedPath::per_group, GroupedPath::grouped_mm}) {
      GeluStacks stacks(4, 16, 8, type);
      auto rows = varied({5, 8}, 1, type).set_requires_grad(true),
           weight = varied({7}, 2, at::kFloat).set_requires_grad(true);
      const auto result = stacks.run(rows, weight, order, path);
      const double tolerance = type == at::kFloat ? 0x1p-22 : 0x1p-7;
      CHECK(relative_distance(result, wide.reference(rows, weight, order)) < tolerance);
      test::probe(result).backward();
      CHECK(relative_distance(rows.grad(), wide_rows.grad()) < tolerance);
      CHECK(relative_distance(weight.grad(), wide_weight.grad()) < tolerance);
      for (std::size_t k = 0; k < 4; ++k)
        CHECK(relative_distance(stacks.all()[k]->gradient(), wide.all()[k]->gradient()) < tolerance);
    }
  }
}

TEST_CASE("weights that the function does not take are refused") {
  GeluStacks stacks(4, 7, 3);
  const ExpertOrder order{integers({0}), {}, integers({1, 0, 0, 0})};
  const auto rows = varied({5, 3}, 1), weight = varied({1}, 2);
  const auto run = [&](const moe::ExpertWeights& weights) {
    static_cast<void>(moe::run_experts(rows, weight, order, weights, test::gelu(), GroupedPath::per_group));
  };
  CHECK_NOTHROW(run({{stacks.into.pointer()}, {}, stacks.out.pointer()}));
  CHECK_THROWS_AS(run({{stacks.into.pointer(), stacks.into.pointer()}, {}, stacks.out.pointer()}), std::logic_error);
  CHECK_THROWS_AS(run({{stacks.into.pointer()}, {}, nullptr}), std::logic_error);
  CHECK_THROWS_AS(run({{stacks.into.pointer()}, {stacks.out_bias.pointer()}, stacks.out.pointer()}), std::logic_error);
}

// Were this broken, an expert would multiply rows of another, or the two ways of doing it would differ.
#include "ops/grouped_product.h"

#include <ATen/ops/matmul.h>

#include "support/gradient_check.h"

using namespace tessera;
using ops::GroupedPath;
using test::BoundWeight;
using test::distance;
using test::integers;
using test::varied;

TEST_CASE("each group's rows meet the group's matrix, with gradients by central differences") {
  auto rows = varied({8, 5}, 1);
  BoundWeight weight(varied({4, 3, 5}, 2));
  const auto counts = integers({3, 0, 1, 4});
  const auto result = ops::grouped_linear(rows, counts, weight, GroupedPath::per_group);
  CHECK(distance(result.narrow(0, 4, 4), at::matmul(rows.narrow(0, 4, 4), weight.value()[3].t())) < 1e-14);
  test::check_gradients([&] { return test::probe(ops::grouped_linear(rows, counts, weight, GroupedPath::per_group)); },
                        {rows}, {&weight});
  CHECK(weight.gradient()[1].abs().max().item<double>() == 0);
}

TEST_CASE("grouped_mm gives what products per group give, forward and backward, with empty groups and no rows") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const auto& counts : {std::vector<std::int64_t>{5, 0, 7, 1}, std::vector<std::int64_t>{0, 0, 13, 0},
                               std::vector<std::int64_t>{0, 0, 0, 0}}) {
      const auto n = counts[0] + counts[1] + counts[2] + counts[3];
      std::vector<at::Tensor> results, d_rows, d_weights;
      for (const auto path : {GroupedPath::per_group, GroupedPath::grouped_mm}) {
        auto rows = varied({n, 24}, 1, type).set_requires_grad(true);
        BoundWeight weight(varied({4, 40, 24}, 2, type));
        const auto result = ops::grouped_linear(rows, integers(counts), weight, path);
        result.sum().backward();  // an expanded gradient
        results.push_back(result);
        d_rows.push_back(rows.grad());
        d_weights.push_back(weight.gradient());
      }
      const double tolerance = type == at::kFloat ? 1e-5 : 0.07;
      CHECK(distance(results[0], results[1]) < tolerance);
      CHECK(distance(d_rows[0], d_rows[1]) < tolerance);
      CHECK(distance(d_weights[0], d_weights[1]) < tolerance);
    }
  }
}

TEST_CASE("grouped_mm is allowed only where its strides are multiples of 16 bytes, and chosen only where allowed") {
  CHECK(ops::grouped_mm_allowed(at::kFloat, {4, 24, 40}));
  CHECK_FALSE(ops::grouped_mm_allowed(at::kFloat, {4, 23, 40}));
  CHECK_FALSE(ops::grouped_mm_allowed(at::kFloat, {4, 24, 41}));
  CHECK_FALSE(ops::grouped_mm_allowed(at::kBFloat16, {4, 4, 40}));
  CHECK_FALSE(ops::grouped_mm_allowed(at::kDouble, {4, 24, 40}));
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
    for (const auto device : {at::kCPU, at::kCUDA})
      for (const std::int64_t inner : {23, 24})
        if (ops::choose_grouped_path(type, device, {4, inner, 40}) == GroupedPath::grouped_mm)
          CHECK(ops::grouped_mm_allowed(type, {4, inner, 40}));
  CHECK(ops::choose_grouped_path(at::kDouble, at::kCUDA, {4, 24, 40}) == GroupedPath::per_group);
  CHECK(ops::name(GroupedPath::per_group) != ops::name(GroupedPath::grouped_mm));
}

TEST_CASE("counts that do not add up to the rows are refused") {
  BoundWeight weight(varied({4, 3, 5}, 2));
  CHECK_THROWS_AS(ops::grouped_linear(varied({8, 5}, 1), integers({3, 0, 1, 3}), weight, GroupedPath::per_group),
                  std::logic_error);
}

TEST_CASE("a stack that was freed and gathered elsewhere gives the same gradients") {
  auto rows = varied({8, 5}, 1).set_requires_grad(true);
  BoundWeight weight(varied({2, 3, 5}, 2));
  const auto run = [&](bool move) {
    rows.mutable_grad().reset();
    const auto loss = test::probe(ops::grouped_linear(rows, integers({3, 5}), weight, GroupedPath::per_group));
    if (move) {
      weight.free();
      weight.gather();
    }
    loss.backward();
    return rows.grad().clone();
  };
  CHECK(distance(run(false), run(true)) == 0);
}

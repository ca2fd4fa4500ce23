// If this failed, an expert would multiply rows of another, or the two implementations would differ.
#include "ops/grouped_product.h"

#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include "ops/grouped_rows.h"
#include "support/gradient_check.h"

using namespace tessera;
using ops::GroupedPath;
using test::distance;
using test::integers;
using test::varied;

TEST_CASE("each group's rows meet the group's matrix, in all three products") {
  const auto rows = varied({8, 5}, 1), weight = varied({4, 3, 5}, 2), d = varied({8, 3}, 3);
  const auto counts = integers({3, 0, 1, 4});
  const auto gradient = at::full({4, 3, 5}, 0.5, rows.options());
  const auto result = ops::grouped_product(rows, counts, weight, GroupedPath::per_group);
  const auto d_rows = ops::grouped_multiply_back(d, counts, weight, GroupedPath::per_group);
  ops::add_grouped_outer_products(gradient, d, rows, counts, GroupedPath::per_group);
  const std::vector<std::int64_t> first{0, 3, 3, 4, 8};
  for (std::int64_t group = 0; group < 4; ++group) {
    const auto at = static_cast<std::size_t>(group);
    const auto of = [&](const at::Tensor& t) { return t.slice(0, first[at], first[at + 1]); };
    CHECK(distance(of(result), at::matmul(of(rows), weight[group].t())) < 1e-14);
    CHECK(distance(of(d_rows), at::matmul(of(d), weight[group])) < 1e-14);
    CHECK(distance(gradient[group], at::matmul(of(d).t(), of(rows)).add(0.5)) < 1e-14);
  }
}

TEST_CASE("grouped_mm gives what products per group give, forward and backward, with empty groups and no rows") {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const auto& counts : {std::vector<std::int64_t>{5, 0, 7, 1}, std::vector<std::int64_t>{0, 0, 13, 0},
                               std::vector<std::int64_t>{0, 0, 0, 0}}) {
      const auto n = counts[0] + counts[1] + counts[2] + counts[3];
      const auto rows = varied({n, 24}, 1, type), weight = varied({4, 40, 24}, 2, type);
      const auto d = at::ones({1}, rows.options()).expand({n, 40});  // as the gradient of a sum comes
      std::vector<at::Tensor> results, d_rows;
      for (const auto path : {GroupedPath::per_group, GroupedPath::grouped_mm}) {
        results.push_back(ops::grouped_product(rows, integers(counts), weight, path));
        d_rows.push_back(ops::grouped_multiply_back(d, integers(counts), weight, path));
        CHECK(results.back().scalar_type() == type);
        CHECK(d_rows.back().scalar_type() == (path == GroupedPath::per_group ? at::kFloat : type));
      }
      const double tolerance = type == at::kFloat ? 0x1p-22 : 0x1p-8;
      CHECK(test::relative_distance(results[1], results[0]) < tolerance);
      CHECK(test::relative_distance(d_rows[1], d_rows[0]) < tolerance);
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
  CHECK(ops::choose_grouped_path(at::kFloat, at::kCUDA, {4, 24, 40}) == GroupedPath::per_group);
  CHECK(ops::choose_grouped_path(at::kBFloat16, at::kCUDA, {4, 24, 40}) == GroupedPath::grouped_mm);
  CHECK(ops::name(GroupedPath::per_group) != ops::name(GroupedPath::grouped_mm));
}

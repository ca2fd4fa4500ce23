// Grouped products under uneven counts against dense products of equal work, and the experts as a whole.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "bench/benches.h"
#include "bench/measure.h"
#include "ops/grouped_rows.h"

namespace tessera::bench {
namespace {

constexpr std::int64_t groups = 16, rows = 16384, inner = 256, outer = 192;

// Counts with sum `rows` in proportion to `share`.
at::Tensor counts_of(const std::vector<double>& share) {
  double sum = 0, before = 0;
  for (const double s : share) sum += s;
  auto counts = at::zeros({groups}, at::TensorOptions(at::kLong));
  std::int64_t given = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    before += share[static_cast<std::size_t>(g)];
    const std::int64_t end = std::llround(before / sum * static_cast<double>(rows));
    counts.mutable_data_ptr<std::int64_t>()[g] = end - given;
    given = end;
  }
  return counts;
}

struct Case {
  std::string name;
  at::Tensor counts;
};

std::vector<Case> cases() {
  std::vector<double> uniform(groups, 1.0), zipf, one_hot(groups, 0.0), partly_empty;
  for (std::int64_t g = 0; g < groups; ++g) {
    zipf.push_back(std::pow(static_cast<double>(g + 1), -1.2));
    partly_empty.push_back(g % 2 == 0 ? 1.0 : 0.0);
  }
  one_hot[5] = 1.0;
  return {{"uniform", counts_of(uniform)},
          {"Zipf(1.2)", counts_of(zipf)},
          {"one-hot", counts_of(one_hot)},
          {"every other group empty", counts_of(partly_empty)}};
}

}  // namespace

// The three products of a forward and a backward pass.
void bench_grouped_products() {
  const auto x = at::randn({rows, inner}), d = at::randn({rows, outer}), weight = at::randn({groups, outer, inner});
  auto y = at::empty({rows, outer}), d_x = at::empty({rows, inner});
  const auto gradient = at::zeros({groups, outer, inner});
  auto dense_gradient = at::zeros({outer, inner});
  const auto dense = weight.select(0, 0);
  const double gflop = 3 * 2e-9 * static_cast<double>(rows * inner * outer);
  for (const auto& [name, counts] : cases()) {
    const auto grouped_products = [&] {
      ops::grouped_product_into(y, x, counts, weight, ops::GroupedPath::per_group);
      ops::grouped_multiply_back_out(d_x, d, counts, weight, ops::Into::overwrite, ops::GroupedPath::per_group);
      ops::add_grouped_outer_products(gradient, d, x, counts);
    };
    const auto dense_products = [&] {
      at::mm_out(y, x, dense.t());
      at::mm_out(d_x, d, dense);
      dense_gradient.addmm_(d.t(), x);
    };
    const auto time = median_seconds_of_both(grouped_products, dense_products);
    print_row("grouped products, " + name, fmt::format("{:.1f} GFLOP/s", gflop / time.first),
              fmt::format("one dense product: {:.1f} GFLOP/s", gflop / time.second), time.second / time.first);
  }
}

}  // namespace tessera::bench

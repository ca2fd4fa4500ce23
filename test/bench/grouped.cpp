// Grouped products under uneven counts against dense products of equal work, and the experts as a whole.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/benches.h"
#include "bench/grouped_counts.h"
#include "bench/measure.h"
#include "ops/grouped_rows.h"

namespace tessera::bench {
namespace {

constexpr std::int64_t groups = 16, rows = 16384, inner = 256, outer = 192;

at::Tensor tensor_of(const std::vector<std::int64_t>& values) {
  auto tensor = at::empty({groups}, at::TensorOptions(at::kLong));
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<std::int64_t>());
  return tensor;
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
  for (const auto& grouped : grouped_cases(groups, rows)) {
    const auto counts = tensor_of(grouped.counts);
    const auto grouped_products = [&] {
      // Into memory that is there, as the experts have it on the CPU.
      ops::for_groups(counts, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
        const auto matrix = weight.select(0, group);
        ops::product_into(y.narrow(0, first, count), x.narrow(0, first, count), matrix);
        ops::multiply_back_out(d_x.narrow(0, first, count), d.narrow(0, first, count), matrix, ops::Into::overwrite);
      });
      ops::add_grouped_outer_products(gradient, d, x, counts, ops::GroupedPath::per_group);
    };
    const auto dense_products = [&] {
      at::mm_out(y, x, dense.t());
      at::mm_out(d_x, d, dense);
      dense_gradient.addmm_(d.t(), x);
    };
    const auto time = median_seconds_of_both(grouped_products, dense_products);
    print_row("grouped products, " + grouped.name, fmt::format("{:.1f} GFLOP/s", gflop / time.first),
              fmt::format("one dense product: {:.1f} GFLOP/s", gflop / time.second), time.second / time.first);
  }
}

}  // namespace tessera::bench

// What one core reaches at best: the speed of a product of two float32 matrices, in GFLOP/s.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include "bench/measure.h"

int main() {
  at::set_num_threads(1);
  constexpr std::int64_t n = 1024;
  const auto a = at::randn({n, n}), b = at::randn({n, n});
  auto c = at::empty({n, n});
  const double seconds = tessera::bench::median_seconds([&] { at::mm_out(c, a, b); });
  fmt::print("{:.2f} GFLOP/s\n", 2.0 * n * n * n / seconds * 1e-9);
  return 0;
}

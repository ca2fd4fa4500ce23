// Rows to slots and back against copying the same bytes.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cstring>

#include "bench/benches.h"
#include "bench/measure.h"
#include "ops/rows.h"

namespace tessera::bench {

void bench_permutation() {
  constexpr std::int64_t tokens = 4096, slots = 16384, hidden = 256;
  const auto x = at::randn({tokens, hidden}), by_slot = at::randn({slots, hidden});
  const auto token = at::randint(tokens, {slots}, at::TensorOptions(at::kLong));
  auto permuted = at::empty({slots, hidden});
  const auto sum = at::zeros({tokens, hidden});
  const double gigabytes = static_cast<double>(permuted.nbytes()) * 1e-9;
  const auto copy = [&] { std::memcpy(permuted.mutable_data_ptr(), by_slot.const_data_ptr(), permuted.nbytes()); };
  const auto row = [&](const char* what, const TwoTimes& time) {
    print_row(what, fmt::format("{:.1f} GB/s", gigabytes / time.first),
              fmt::format("memcpy: {:.1f} GB/s", gigabytes / time.second), time.second / time.first);
  };
  row("permutation (rows to slots)",
      median_seconds_of_both([&] { at::index_select_out(permuted, x, 0, token); }, copy));
  row("un-permutation (slots added to rows)",
      median_seconds_of_both([&] { ops::add_rows(sum, token, by_slot); }, copy));
}

}  // namespace tessera::bench

// The chunked head loss against the product and cross entropy of all logits at once, forward and backward.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include "base/quantity.h"
#include "bench/benches.h"
#include "bench/bound_weight.h"
#include "bench/child_memory.h"
#include "bench/measure.h"
#include "ops/chunked_cross_entropy.h"

namespace tessera::bench {

void bench_chunked_loss() {
  constexpr std::int64_t tokens = 4096, hidden = 256, vocabulary = 8192;
  auto x = at::randn({tokens, hidden});
  x.set_requires_grad(true);
  const auto labels = at::randint(vocabulary, {tokens}, at::TensorOptions(at::kLong));
  BoundWeight head({vocabulary, hidden});
  auto whole_head = head.value.detach().clone();
  whole_head.set_requires_grad(true);
  const auto chunked = [&] { ops::chunked_cross_entropy(x, labels, head.weight, 1.0 / tokens).loss.backward(); };
  const auto whole = [&] { at::cross_entropy_loss(at::matmul(x, whole_head.t()), labels).backward(); };

  // The child must meet no gradient that the parent already holds.
  const auto memory_of_chunked = peak_bytes(chunked), memory_of_whole = peak_bytes(whole);
  const auto time = median_seconds_of_both(chunked, whole);
  print_row("chunked loss, time", fmt::format("{:.0f} ms", 1e3 * time.first),
            fmt::format("whole logits: {:.0f} ms", 1e3 * time.second), time.second / time.first);
  print_row("chunked loss, memory", base::format_bytes(static_cast<std::uint64_t>(memory_of_chunked)),
            "whole logits: " + base::format_bytes(static_cast<std::uint64_t>(memory_of_whole)),
            static_cast<double>(memory_of_whole) / static_cast<double>(memory_of_chunked));
}

}  // namespace tessera::bench

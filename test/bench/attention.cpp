// Causal attention against LibTorch's flash attention for CPUs, which wants [batch, heads, tokens, head_dim] and as
// many key heads as query heads.
#include "ops/attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "bench/benches.h"
#include "bench/measure.h"

namespace tessera::bench {
namespace {

constexpr std::int64_t sequences = 8, length = 512, heads = 8, kv_heads = 2, dim = 64;

at::Tensor to_flash(const at::Tensor& x, std::int64_t repeat) {
  const auto split = x.detach().view({sequences, length, -1, dim}).transpose(1, 2);
  return split.repeat_interleave(repeat, 1).contiguous();
}

void row(const char* what, const TwoTimes& time) {
  print_row(what, fmt::format("{:.1f} ms", 1e3 * time.first), fmt::format("flash: {:.1f} ms", 1e3 * time.second),
            time.second / time.first);
}

}  // namespace

void bench_attention() {
  auto query = at::randn({sequences * length, heads, dim}), key = at::randn({sequences * length, kv_heads, dim}),
       value = at::randn({sequences * length, kv_heads, dim});
  std::vector<std::int64_t> offsets;
  for (std::int64_t s = 0; s <= sequences; ++s) offsets.push_back(s * length);
  const auto starts = at::tensor(offsets, at::TensorOptions(at::kLong));
  const auto q = to_flash(query, 1), k = to_flash(key, heads / kv_heads), v = to_flash(value, heads / kv_heads);
  {
    const c10::NoGradGuard no_graph;
    row("attention forward",
        median_seconds_of_both([&] { (void)ops::causal_attention(query, key, value, starts); },
                               [&] { (void)at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true); }));
  }
  for (auto* x : {&query, &key, &value}) x->set_requires_grad(true);
  const auto result = ops::causal_attention(query, key, value, starts);
  const auto d = at::randn_like(result);
  const auto [flash, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true);
  const auto d_flash = to_flash(d, 1);
  const auto ours = [&] { (void)torch::autograd::grad({result}, {query, key, value}, {d}, /*retain_graph=*/true); };
  const auto theirs = [&, o = flash, l = logsumexp] {
    (void)at::_scaled_dot_product_flash_attention_for_cpu_backward(d_flash, q, k, v, o, l, 0.0, true);
  };
  row("attention backward", median_seconds_of_both(ours, theirs));
}

}  // namespace tessera::bench

#include "moe/balance.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "base/error.h"
#include "ops/upload.h"

namespace tessera::moe {
namespace {

at::Tensor stacked(const std::vector<at::Tensor>& probability, const at::Tensor& count) {
  base::expect(!probability.empty() && count.dim() == 3, "balance: no layers, or count is not [layers, sets, experts]");
  auto result = at::stack(probability);  // [layers, sets, experts]
  base::expect(result.sizes() == count.sizes(), "balance: probabilities and counts differ in shape");
  return result;
}

at::Tensor zero_like(const at::Tensor& probability) {
  return at::zeros({}, probability.options().requires_grad(false));
}

}  // namespace

at::Tensor pooled_balance(const std::vector<at::Tensor>& probability, const at::Tensor& count, double routed_tokens) {
  const auto p = stacked(probability, count);
  if (routed_tokens <= 0) return zero_like(p);
  const double n = routed_tokens * static_cast<double>(p.size(0));
  const auto f = count.sum(at::IntArrayRef{0, 1}).to(p.scalar_type()).div_(n);
  return p.sum(at::IntArrayRef{0, 1}).mul(f).sum().mul(static_cast<double>(p.size(2)) / n);
}

at::Tensor per_layer_balance(const std::vector<at::Tensor>& probability, const at::Tensor& count,
                             double routed_tokens) {
  const auto p = stacked(probability, count);
  if (routed_tokens <= 0) return zero_like(p);
  const auto f = count.sum(1).to(p.scalar_type()).div_(routed_tokens);
  const auto layers = static_cast<double>(p.size(0));
  return p.sum(1).mul(f).sum().mul(static_cast<double>(p.size(2)) / routed_tokens / layers);
}

at::Tensor sequence_balance(const std::vector<at::Tensor>& probability, const at::Tensor& count,
                            const at::Tensor& sequence_starts) {
  const auto p = stacked(probability, count);
  base::expect(sequence_starts.numel() == p.size(1) + 1, "sequence_balance: {} starts for {} sequences",
               sequence_starts.numel(), p.size(1));
  // f_e p_e = (slots / N) (probability / N) with N = tokens * layers of the sequence; without tokens both sums are 0.
  const auto tokens = ops::upload(sequence_starts.diff().clamp_min(1), p.device())
                          .to(p.scalar_type())
                          .mul_(static_cast<double>(p.size(0)));
  const auto f = count.sum(0).to(p.scalar_type()).div_(tokens.unsqueeze(1));
  return p.sum(0).mul(f).div(tokens.unsqueeze(1)).sum().mul(static_cast<double>(p.size(2)));
}

at::Tensor router_z_loss(const std::vector<at::Tensor>& z) {
  base::expect(!z.empty(), "router_z_loss: no layers");
  return at::stack(z).sum();
}

}  // namespace tessera::moe

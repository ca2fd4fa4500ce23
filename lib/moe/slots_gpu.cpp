#include "moe/slots_gpu.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/error.h"

namespace tessera::moe::gpu {
namespace {

constexpr std::int64_t low_bits = std::int64_t{1} << 32;

// Returns sort keys, all different within a token: the probability's bits (floats of one sign sort like their bits),
// then, for equal ones, the lower expert first. A NaN comes last.
at::Tensor keys_of(const at::Tensor& probability) {
  const auto experts = probability.size(1);
  const auto bits = probability.view(at::kInt).to(at::kLong);
  const auto last = at::arange(experts - 1, -1, -1, bits.options());
  return at::where(probability.ge(0), bits, at::full({}, -1, bits.options())).mul_(low_bits).add_(last);
}

}  // namespace

Slots choose_top_k(const at::Tensor& probability, std::int64_t k) {
  const auto tokens = probability.size(0), experts = probability.size(1);
  base::expect(probability.scalar_type() == at::kFloat, "on a GPU probabilities are float32");
  if (tokens == 0) {
    const auto none = at::zeros({0}, probability.options().dtype(at::kLong));
    return {none, none, at::zeros({experts}, none.options())};
  }
  const auto best = std::get<0>(at::topk(keys_of(probability.detach().contiguous()), k, 1));
  const auto expert = at::full({}, experts - 1, best.options()).sub(best.remainder(low_bits));  // [tokens, k]
  // By expert, then token: all numbers differ, so the sort need not be stable.
  const auto token = at::arange(tokens, expert.options());
  const auto order = std::get<0>(at::sort(expert.mul(tokens).add_(token.unsqueeze(1)).flatten()));
  const auto of_expert = order.floor_divide(tokens), of_token = order.remainder(tokens);
  const auto ends = at::searchsorted(of_expert, at::arange(experts, expert.options()), /*out_int32=*/false,
                                     /*right=*/true);
  return {of_token, of_token.mul(experts).add_(of_expert), ends.diff(1, 0, at::full({1}, 0, ends.options()))};
}

}  // namespace tessera::moe::gpu

// The choice of experts: no gradient, exact in every layout.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "moe/router.h"
#include "moe/slots_gpu.h"
#include "ops/float_types.h"

namespace tessera::moe {
namespace {

// Writes the indices of the k largest of n values to `best`, largest first; of equal ones the lower index, with NaN as
// the smallest.
template <class Wide>
void largest_k(const Wide* values, std::int64_t n, std::int64_t k, std::vector<Wide>& keys, std::int64_t* best) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Wide key = std::isnan(values[i]) ? -std::numeric_limits<Wide>::infinity() : values[i];
    if (found == k && !(key > keys[static_cast<std::size_t>(k - 1)])) continue;
    auto place = found < k ? found++ : k - 1;
    for (; place > 0 && key > keys[static_cast<std::size_t>(place - 1)]; --place) {
      keys[static_cast<std::size_t>(place)] = keys[static_cast<std::size_t>(place - 1)];
      best[place] = best[place - 1];
    }
    keys[static_cast<std::size_t>(place)] = key;
    best[place] = i;
  }
}

// Stable counting sort by expert of choices that are sorted by token.
Slots sort_by_expert(const std::vector<std::int64_t>& chosen, std::int64_t tokens, std::int64_t experts, std::int64_t k,
                     const at::TensorOptions& integers) {
  Slots slots{at::empty({tokens * k}, integers), at::empty({tokens * k}, integers), at::zeros({experts}, integers)};
  auto* count = slots.expert_count.mutable_data_ptr<std::int64_t>();
  for (const auto expert : chosen) ++count[expert];
  std::vector<std::int64_t> next(static_cast<std::size_t>(experts));
  for (std::size_t e = 1; e < next.size(); ++e) next[e] = next[e - 1] + count[e - 1];
  auto *token = slots.token.mutable_data_ptr<std::int64_t>(), *choice = slots.choice.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const auto place = next[static_cast<std::size_t>(chosen[i])]++;
    token[place] = static_cast<std::int64_t>(i) / k;
    choice[place] = token[place] * experts + chosen[i];
  }
  return slots;
}

}  // namespace

Slots choose_top_k(const at::Tensor& probability, std::int64_t k) {
  const auto tokens = probability.size(0), experts = probability.size(1);
  base::expect(k > 0 && k <= experts, "choose_top_k: {} experts per token of {} experts", k, experts);
  if (!probability.is_cpu()) return gpu::choose_top_k(probability, k);
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(tokens * k));
  const auto values = probability.detach().contiguous();
  ops::with_wide_type(values.scalar_type(), [&]<class Wide>() {
    std::vector<Wide> keys(static_cast<std::size_t>(k));
    const auto* data = values.template const_data_ptr<Wide>();
    for (std::int64_t t = 0; t < tokens; ++t) largest_k(data + t * experts, experts, k, keys, chosen.data() + t * k);
  });
  return sort_by_expert(chosen, tokens, experts, k, at::TensorOptions(at::kLong));
}

}  // namespace tessera::moe

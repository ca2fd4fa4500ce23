#include "model/values.h"

#include <ATen/ops/tensor.h>

#include <utility>

namespace tessera::model {

using K = architecture::ValueKind;

Values batch_values(at::Tensor ids, at::Tensor labels, at::Tensor positions,
                    const std::vector<std::int64_t>& attention_starts,
                    const std::vector<std::int64_t>& sequence_starts) {
  return {{{K::ids}, std::move(ids)},
          {{K::labels}, std::move(labels)},
          {{K::positions}, std::move(positions)},
          {{K::attention_starts}, at::tensor(attention_starts, at::kLong)},
          {{K::sequence_starts}, at::tensor(sequence_starts, at::kLong)}};
}

BatchCounts counts_of(const Values& batch) {
  const auto& labels = batch.at({K::labels});
  return {.valid_tokens = labels.ge(0).sum().item<std::int64_t>(),
          .tokens = labels.numel(),
          .sequences = batch.at({K::sequence_starts}).numel() - 1};
}

at::Tensor delivered(architecture::ValueKind to, const at::Tensor& sent, std::int64_t sources) {
  const auto dims = static_cast<std::int64_t>(architecture::traits_of(to).dims.size());
  return sent.dim() == dims ? sent : sent.view({sources, sent.numel() / sources});
}

}  // namespace tessera::model

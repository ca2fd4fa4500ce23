#include "ops/chunked_cross_entropy_gpu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ops/product.h"
#include "ops/upload.h"
#include "ops/weight_access.h"
#include "ops/wide_type.h"

namespace tessera::ops::gpu {
namespace {

// Replaces the logits by scale * (softmax - one at the label).
void to_gradient(at::Tensor& logits, const at::Tensor& logsumexp, const at::Tensor& label, double scale) {
  logits.sub_(logsumexp.unsqueeze(1)).exp_().mul_(scale);
  const auto place = label.unsqueeze(1);
  logits.scatter_(1, place, at::gather(logits, 1, place).sub_(scale));
}

}  // namespace

Losses cross_entropy(const at::Tensor& hidden, const Targets& targets, const device::Weight& head, double scale,
                     std::int64_t chunk_tokens, Want want) {
  const auto& matrix = bound_value(head);
  const auto count = static_cast<std::int64_t>(targets.tokens.size());
  const auto options = hidden.options().requires_grad(false);
  const auto wide = options.dtype(wide_type(hidden.scalar_type()));
  const auto buffer = at::empty({std::min(chunk_tokens, count), matrix.size(0)}, wide);
  const auto tokens = upload(targets.tokens, hidden.device()), labels = upload(targets.labels, hidden.device());
  Losses result{at::zeros({}, options.dtype(at::kDouble)), {}};
  if (want == Want::gradient) result.d_hidden = at::zeros(hidden.sizes(), options);
  for (std::int64_t first = 0; first < count; first += chunk_tokens) {
    const auto rows = std::min(chunk_tokens, count - first);
    const auto index = tokens.narrow(0, first, rows), label = labels.narrow(0, first, rows);
    const auto x = at::index_select(hidden, 0, index);
    auto logits = buffer.narrow(0, 0, rows);
    product_into(logits, x, matrix);
    const auto logsumexp = at::logsumexp(logits, {1});
    const auto at_label = at::gather(logits, 1, label.unsqueeze(1)).squeeze(1);
    result.sum.add_(at::sum(at::sub(logsumexp, at_label), at::kDouble));
    if (want == Want::loss) continue;
    to_gradient(logits, logsumexp, label, scale);
    const auto d_logits = logits.to(hidden.scalar_type());
    add_outer_product(bound_gradient(head), d_logits, x);
    auto d = at::empty(x.sizes(), options);
    multiply_back_out(d, d_logits, matrix, Into::overwrite);
    result.d_hidden.index_copy_(0, index, d);
  }
  return result;
}

}  // namespace tessera::ops::gpu

#include "ops/chunked_cross_entropy.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/attention_kernels.h"
#include "ops/chunked_cross_entropy_gpu.h"
#include "ops/float_types.h"
#include "ops/product.h"
#include "ops/target_losses.h"
#include "ops/weight_access.h"
#include "ops/wide_type.h"

namespace tessera::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t ignored = -100;
// Unused elements between rows of logits: rows a power of two apart fall into the same cache sets, and the products
// that read or write them become a tenth slower.
constexpr std::int64_t row_gap = 16;
// Terms of a softmax that are summed in the wide type before float64 takes over.
constexpr std::int64_t sum_block = 2048;

// Returns the cross entropy of one row of logits, replaces the row by e^(logit - maximum) and sets `sum` to their sum.
template <class Wide>
TESSERA_INLINE double row_loss(Wide* logits, std::int64_t label, std::int64_t n, double& sum) {
  const Wide maximum = simd::largest(logits, n);
  const double at_label = static_cast<double>(logits[label]);
  sum = 0;
  for (std::int64_t first = 0; first < n; first += sum_block) {
    const auto end = std::min(n, first + sum_block);
    Wide part = 0;
#pragma omp simd reduction(+ : part)
    for (std::int64_t i = first; i < end; ++i) {
      const Wide e = simd::exp(logits[i] - maximum);
      logits[i] = e;
      part += e;
    }
    sum += static_cast<double>(part);
  }
  return std::log(sum) + static_cast<double>(maximum) - at_label;
}

// Replaces e^(logit - maximum), whose sum is `sum`, by scale * (softmax - one at the label).
template <class Wide>
TESSERA_INLINE void row_gradient(Wide* exponentials, std::int64_t label, std::int64_t n, double sum, double scale) {
  const auto factor = static_cast<Wide>(scale / sum);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) exponentials[i] *= factor;
  exponentials[label] -= static_cast<Wide>(scale);
}

// Returns the losses of the rows of `logits`, summed in row order; with Want::gradient replaces the logits by their
// gradient.
template <class Wide>
double losses(const at::Tensor& logits, const std::int64_t* labels, double scale, Want want) {
  const auto rows = logits.size(0), n = logits.size(1), stride = logits.stride(0);
  auto* data = logits.mutable_data_ptr<Wide>();
  std::vector<double> loss(static_cast<std::size_t>(rows));
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    simd::run([&]() __attribute__((always_inline)) {
      for (auto r = begin; r < end; ++r) {
        double sum = 0;
        loss[static_cast<std::size_t>(r)] = row_loss(data + r * stride, labels[r], n, sum);
        if (want == Want::gradient) row_gradient(data + r * stride, labels[r], n, sum, scale);
      }
    });
  });
  double total = 0;
  for (const double value : loss) total += value;
  return total;
}

// Finds the tokens that have a target.
Targets find_targets(const at::Tensor& labels, std::int64_t vocabulary) {
  Targets targets;
  const auto list = labels.contiguous();
  const auto* data = list.const_data_ptr<std::int64_t>();
  for (std::int64_t t = 0; t < list.numel(); ++t) {
    if (data[t] == ignored) continue;
    base::expect(data[t] >= 0 && data[t] < vocabulary, "label {} is outside the vocabulary of {}", data[t], vocabulary);
    targets.tokens.push_back(t);
    targets.labels.push_back(data[t]);
  }
  return targets;
}

Losses run_chunks(const at::Tensor& hidden, const at::Tensor& labels, const device::Weight& head, double scale,
                  std::int64_t chunk_tokens, Want want) {
  const auto& matrix = bound_value(head);
  const auto targets = find_targets(labels, matrix.size(0));
  if (!hidden.is_cpu()) return gpu::cross_entropy(hidden, targets, head, scale, chunk_tokens, want);
  const auto count = static_cast<std::int64_t>(targets.tokens.size());
  const auto wide = hidden.options().dtype(wide_type(hidden.scalar_type())).requires_grad(false);
  const auto largest_chunk = std::min(chunk_tokens, count);
  const auto buffer = at::empty({largest_chunk, matrix.size(0) + row_gap}, wide).narrow(1, 0, matrix.size(0));
  double total = 0;
  Losses result;
  if (want == Want::gradient) result.d_hidden = at::zeros(hidden.sizes(), hidden.options().requires_grad(false));
  for (std::int64_t first = 0; first < count; first += chunk_tokens) {
    const auto rows = std::min(chunk_tokens, count - first), token = targets.tokens[static_cast<std::size_t>(first)];
    // A chunk of adjacent tokens is a view of the hidden rows, any other a copy.
    const bool no_gaps = targets.tokens[static_cast<std::size_t>(first + rows - 1)] - token == rows - 1;
    const auto index = at::empty({no_gaps ? 0 : rows}, labels.options());
    if (!no_gaps) std::copy_n(targets.tokens.data() + first, rows, index.mutable_data_ptr<std::int64_t>());
    const auto x = no_gaps ? hidden.narrow(0, token, rows) : at::index_select(hidden, 0, index);
    const auto logits = buffer.narrow(0, 0, rows);
    product_into(logits, x, matrix);
    total += with_wide_type(logits.scalar_type(), [&]<class Wide>() {
      return losses<Wide>(logits, targets.labels.data() + first, scale, want);
    });
    if (want == Want::loss) continue;
    add_outer_product(bound_gradient(head), logits, x);
    const bool in_place = no_gaps && wide.dtype() == hidden.dtype();
    const auto d = in_place ? result.d_hidden.narrow(0, token, rows) : at::empty({rows, hidden.size(1)}, wide);
    multiply_back_out(d, logits, matrix, Into::overwrite);
    if (no_gaps && !in_place) result.d_hidden.narrow(0, token, rows).copy_(d);
    if (!no_gaps) result.d_hidden.index_copy_(0, index, d.to(hidden.scalar_type()));
  }
  result.sum = at::scalar_tensor(total, at::kDouble);
  return result;
}

struct ChunkedCrossEntropy : Function<ChunkedCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            [[maybe_unused]] const at::Tensor& head_anchor, const at::Tensor& labels,
                            const device::Weight* head, double scale, std::int64_t chunk_tokens, Want want,
                            at::Tensor* sum) {
    const auto result = run_chunks(hidden.detach(), labels, *head, scale, chunk_tokens, want);
    *sum = result.sum;
    context->saved_data["d_hidden"] = result.d_hidden;
    return result.sum.mul(scale).to(wide_type(hidden.scalar_type()));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    // Not checked on a GPU, where reading the value would make the host wait.
    base::expect(!gradients[0].is_cpu() || gradients[0].item<double>() == 1.0,
                 "the gradient of the chunked loss was formed for an incoming gradient of 1");
    auto d_hidden = context->saved_data["d_hidden"].toTensor();
    context->saved_data.clear();
    return {std::move(d_hidden), {}, {}, {}, {}, {}, {}, {}};
  }
};

}  // namespace

CrossEntropy chunked_cross_entropy(const at::Tensor& hidden, const at::Tensor& labels, device::Weight& head,
                                   double scale, std::int64_t chunk_tokens) {
  base::expect(hidden.dim() == 2 && labels.numel() == hidden.size(0) && hidden.size(1) == head.value().size(1) &&
                   chunk_tokens > 0,
               "chunked_cross_entropy: hidden [tokens, H], labels [tokens] and head [V, H] do not fit");
  CrossEntropy result;
  const auto want = at::GradMode::is_enabled() ? Want::gradient : Want::loss;
  result.loss =
      ChunkedCrossEntropy::apply(hidden, head.anchor(), labels, &head, scale, chunk_tokens, want, &result.sum);
  return result;
}

}  // namespace tessera::ops

#include "ops/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/float_types.h"
#include "ops/rms_norm_gpu.h"
#include "ops/simd.h"
#include "ops/weight_access.h"
#include "ops/wide_type.h"

namespace tessera::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// The gain's gradient is summed over pieces of so many rows, then over the pieces in order: the sum does not depend on
// the number of threads.
constexpr std::int64_t rows_per_piece = 256;

// second may be null: then `sum` is not written and the norm is of `first`. Returns 1 / root mean square.
template <class T>
TESSERA_INLINE wide_of<T> norm_row(const T* first, const T* second, const T* gain, double epsilon, T* sum, T* normed,
                                   std::int64_t n) {
  using Wide = wide_of<T>;
  Wide squares = 0;
  if (second == nullptr) {
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < n; ++i) squares += static_cast<Wide>(first[i]) * static_cast<Wide>(first[i]);
  } else {
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < n; ++i) {
      const T added = static_cast<T>(static_cast<Wide>(first[i]) + static_cast<Wide>(second[i]));
      sum[i] = added;
      squares += static_cast<Wide>(added) * static_cast<Wide>(added);
    }
    first = sum;
  }
  const Wide inverse = Wide(1) / std::sqrt(squares / static_cast<Wide>(n) + static_cast<Wide>(epsilon));
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i)
    normed[i] = static_cast<T>(static_cast<Wide>(static_cast<T>(static_cast<Wide>(first[i]) * inverse)) *
                               static_cast<Wide>(gain[i]));
  return inverse;
}

// With x^ = x * inverse: d_gain += d * x^, d_x = inverse * (d * gain - x^ * mean(d * gain * x^)) + d_sum (if not null).
template <class T>
TESSERA_INLINE void norm_row_gradient(const T* x, const T* d, const T* d_sum, const T* gain, wide_of<T> inverse,
                                      wide_of<T>* d_gain, T* d_x, std::int64_t n) {
  using Wide = wide_of<T>;
  Wide dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t i = 0; i < n; ++i) {
    const Wide product = static_cast<Wide>(d[i]) * static_cast<Wide>(x[i]) * inverse;
    d_gain[i] += product;
    dot += product * static_cast<Wide>(gain[i]);
  }
  const Wide mean = dot / static_cast<Wide>(n) * inverse;
  if (d_sum == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      d_x[i] = static_cast<T>(inverse *
                              (static_cast<Wide>(d[i]) * static_cast<Wide>(gain[i]) - static_cast<Wide>(x[i]) * mean));
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i)
      d_x[i] =
          static_cast<T>(static_cast<Wide>(d_sum[i]) + inverse * (static_cast<Wide>(d[i]) * static_cast<Wide>(gain[i]) -
                                                                  static_cast<Wide>(x[i]) * mean));
  }
}

using gpu::Normed;

Normed norm_rows(const at::Tensor& first, const at::Tensor& second, const at::Tensor& gain, double epsilon) {
  if (!first.is_cpu()) return gpu::norm(first, second, gain, epsilon);
  const auto n = gain.numel(), rows = first.numel() / std::max<std::int64_t>(1, n);
  Normed result;
  result.normed = at::empty_like(first);
  if (second.defined()) result.sum = at::empty_like(first);
  result.inverse = at::empty({rows}, first.options().dtype(wide_type(first.scalar_type())).requires_grad(false));
  with_float_type(first.scalar_type(), [&]<class T>() {
    const T *a = first.const_data_ptr<T>(), *b = second.defined() ? second.const_data_ptr<T>() : nullptr;
    const T* g = gain.const_data_ptr<T>();
    T *sum = b != nullptr ? result.sum.mutable_data_ptr<T>() : nullptr, *normed = result.normed.mutable_data_ptr<T>();
    auto* inverse = result.inverse.mutable_data_ptr<wide_of<T>>();
    at::parallel_for(0, rows, 64, [&](std::int64_t begin, std::int64_t end) {
      simd::run([&]() __attribute__((always_inline)) {
        for (auto r = begin; r < end; ++r) {
          const auto at = r * n;
          inverse[r] = norm_row(a + at, b != nullptr ? b + at : nullptr, g, epsilon,
                                sum != nullptr ? sum + at : nullptr, normed + at, n);
        }
      });
    });
  });
  return result;
}

// d_sum may be undefined. Adds into the gain's gradient.
at::Tensor norm_rows_gradient(const at::Tensor& x, const at::Tensor& inverse, const at::Tensor& d,
                              const at::Tensor& d_sum, const device::Weight& gain) {
  if (!x.is_cpu()) return gpu::norm_gradient(x, inverse, d, d_sum, gain);
  const auto n = gain.value().numel(), rows = inverse.numel();
  const auto pieces = (rows + rows_per_piece - 1) / rows_per_piece;
  auto d_x = at::empty_like(x);
  auto gain_pieces = at::zeros({pieces, n}, inverse.options());
  with_float_type(x.scalar_type(), [&]<class T>() {
    const T *x_data = x.const_data_ptr<T>(), *d_data = d.const_data_ptr<T>();
    const T* d_sum_data = d_sum.defined() ? d_sum.const_data_ptr<T>() : nullptr;
    const T* g = bound_value(gain).template const_data_ptr<T>();
    const auto* inverse_data = inverse.const_data_ptr<wide_of<T>>();
    auto* gain_data = gain_pieces.mutable_data_ptr<wide_of<T>>();
    T* result = d_x.mutable_data_ptr<T>();
    at::parallel_for(0, pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      simd::run([&]() __attribute__((always_inline)) {
        for (auto r = begin * rows_per_piece; r < std::min(rows, end * rows_per_piece); ++r) {
          const auto at = r * n;
          norm_row_gradient(x_data + at, d_data + at, d_sum_data != nullptr ? d_sum_data + at : nullptr, g,
                            inverse_data[r], gain_data + r / rows_per_piece * n, result + at, n);
        }
      });
    });
  });
  at::Tensor gradient = bound_gradient(gain);
  gradient.add_(gain_pieces.sum(0).to(gradient.scalar_type()));
  return d_x;
}

struct RmsNorm : Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            [[maybe_unused]] const at::Tensor& gain_anchor, const device::Weight* gain,
                            double epsilon) {
    const auto x = input.contiguous();
    const auto result = norm_rows(x, {}, bound_value(*gain), epsilon);
    context->save_for_backward({x, result.inverse});
    context->saved_data["gain"] = as_saved(gain);
    return result.normed;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto* gain = saved_weight(context->saved_data["gain"]);
    return {norm_rows_gradient(saved[0], saved[1], gradients[0].contiguous(), {}, *gain), {}, {}, {}};
  }
};

struct AddRmsNorm : Function<AddRmsNorm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& first, const at::Tensor& second,
                               [[maybe_unused]] const at::Tensor& gain_anchor, const device::Weight* gain,
                               double epsilon) {
    const auto result = norm_rows(first.contiguous(), second.contiguous(), bound_value(*gain), epsilon);
    context->save_for_backward({result.sum, result.inverse});
    context->saved_data["gain"] = as_saved(gain);
    context->set_materialize_grads(false);
    return {result.sum, result.normed};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto* gain = saved_weight(context->saved_data["gain"]);
    auto d = gradients[0];
    if (gradients[1].defined())
      d = norm_rows_gradient(saved[0], saved[1], gradients[1].contiguous(), d.defined() ? d.contiguous() : d, *gain);
    return {d, d, {}, {}, {}};
  }
};

void check(const at::Tensor& input, const device::Weight& gain) {
  base::expect(
      input.dim() > 0 && input.size(-1) == gain.value().numel() && input.scalar_type() == gain.value().scalar_type(),
      "rms_norm: the gain does not fit the input's last dim and type");
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& input, device::Weight& gain, double epsilon) {
  check(input, gain);
  return RmsNorm::apply(input, gain.anchor(), &gain, epsilon);
}

SumAndNorm add_rms_norm(const at::Tensor& first, const at::Tensor& second, device::Weight& gain, double epsilon) {
  check(first, gain);
  base::expect(first.sizes() == second.sizes() && first.scalar_type() == second.scalar_type(),
               "add_rms_norm: the two inputs differ in shape or type");
  auto results = AddRmsNorm::apply(first, second, gain.anchor(), &gain, epsilon);
  return {results[0], results[1]};
}

}  // namespace tessera::ops

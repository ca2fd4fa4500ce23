#include "ops/rotary.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/sin.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/float_types.h"
#include "ops/rotary_gpu.h"
#include "ops/simd.h"
#include "ops/wide_type.h"

namespace tessera::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// `direction` 1 turns forward, -1 back.
template <class T>
TESSERA_INLINE void turn_head(const T* from, const wide_of<T>* cosine, const wide_of<T>* sine, wide_of<T> direction,
                              T* to, std::int64_t half) {
  using Wide = wide_of<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const auto first = static_cast<Wide>(from[i]), second = static_cast<Wide>(from[i + half]);
    const Wide s = direction * sine[i];
    to[i] = static_cast<T>(first * cosine[i] - second * s);
    to[i + half] = static_cast<T>(second * cosine[i] + first * s);
  }
}

at::Tensor turn(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine, int direction) {
  if (!heads.is_cpu()) return gpu::turn(heads, cosine, sine, direction);
  const auto input = heads.contiguous();
  auto result = at::empty_like(input);
  const auto head_count = input.size(1), head_dim = input.size(2);
  with_float_type(input.scalar_type(), [&]<class T>() {
    using Wide = wide_of<T>;
    const T* from = input.const_data_ptr<T>();
    const auto *c = cosine.const_data_ptr<Wide>(), *s = sine.const_data_ptr<Wide>();
    T* to = result.mutable_data_ptr<T>();
    at::parallel_for(0, input.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
      simd::run([&]() __attribute__((always_inline)) {
        for (std::int64_t row = begin * head_count; row < end * head_count; ++row) {
          const auto table = row / head_count * (head_dim / 2);
          turn_head(from + row * head_dim, c + table, s + table, static_cast<Wide>(direction), to + row * head_dim,
                    head_dim / 2);
        }
      });
    });
  });
  return result;
}

struct Rotate : Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& heads, const at::Tensor& cosine,
                            const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return turn(heads, cosine, sine, 1);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {turn(gradients[0], saved[0], saved[1], -1), {}, {}};
  }
};

}  // namespace

RotaryTables rotary_tables(const at::Tensor& positions, double theta, std::int64_t head_dim, at::ScalarType wide) {
  base::expect(head_dim % 2 == 0, "rotary embedding turns pairs of dims; head_dim {} is odd", head_dim);
  const auto exponent = at::div(at::arange(0, head_dim, 2, positions.options().dtype(wide)), head_dim);
  const auto frequency = at::reciprocal(at::pow(theta, exponent));
  const auto angle = at::mul(positions.to(wide).unsqueeze(1), frequency);
  return {at::cos(angle), at::sin(angle)};
}

at::Tensor rotate(const at::Tensor& heads, const RotaryTables& tables) {
  base::expect(heads.dim() == 3 && tables.cosine.size(0) == heads.size(0) &&
                   tables.cosine.size(1) * 2 == heads.size(2) &&
                   tables.cosine.scalar_type() == wide_type(heads.scalar_type()) && tables.cosine.is_contiguous() &&
                   tables.sine.is_contiguous(),
               "rotate: heads [tokens, heads, head_dim] and tables [tokens, head_dim / 2] do not fit");
  return Rotate::apply(heads, tables.cosine, tables.sine);
}

}  // namespace tessera::ops

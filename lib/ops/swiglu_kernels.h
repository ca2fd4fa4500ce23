// SwiGLU on plain memory; loops for simd::run.
#pragma once

#include "ops/float_types.h"
#include "ops/simd.h"

namespace tessera::ops {

// result = silu(gate) * up * scale
template <class T, class R>
TESSERA_INLINE void swiglu_row(const T* gate, const T* up, wide_of<T> scale, R* result, std::int64_t n) {
  using Wide = wide_of<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const auto g = static_cast<Wide>(gate[i]);
    result[i] = static_cast<R>(g * simd::sigmoid(g) * static_cast<Wide>(up[i]) * scale);
  }
}

// Writes the gradients of gate and up, given the gradient `d` of the result, and the result of swiglu_row again.
// Returns the gradient of scale, sum_i d_i * silu(gate_i) * up_i. d_gate may be `gate` itself, d_up `up` itself.
template <class T, class D, class R>
TESSERA_INLINE wide_of<T> swiglu_row_gradient(const T* gate, const T* up, const D* d, wide_of<T> scale, R* d_gate,
                                              R* d_up, R* result, std::int64_t n) {
  using Wide = wide_of<T>;
  Wide scale_gradient = 0;
#pragma omp simd reduction(+ : scale_gradient)
  for (std::int64_t i = 0; i < n; ++i) {
    const auto g = static_cast<Wide>(gate[i]);
    const auto u = static_cast<Wide>(up[i]);
    const auto di = static_cast<Wide>(d[i]);
    const Wide s = simd::sigmoid(g), silu = g * s;
    scale_gradient += di * silu * u;
    result[i] = static_cast<R>(silu * u * scale);
    d_gate[i] = static_cast<R>(di * scale * u * s * (Wide(1) + g * (Wide(1) - s)));
    d_up[i] = static_cast<R>(di * scale * silu);
  }
  return scale_gradient;
}

}  // namespace tessera::ops

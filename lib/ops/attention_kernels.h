// Row loops of causal attention on plain memory; for simd::run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ops/simd.h"

namespace tessera::ops {

// The softmax of one query row over the key blocks seen so far: the largest scaled score, and the sum of e^(scaled
// score - maximum).
template <class Wide>
struct SoftmaxState {
  Wide maximum = -std::numeric_limits<Wide>::infinity();
  Wide sum = 0;
};

// Replaces the scores of one row against a key block by e^(scale * score - new maximum), and by zero from `valid` on.
// Returns the factor by which the caller must multiply its sums over earlier blocks.
template <class Wide>
TESSERA_INLINE Wide extend_softmax(SoftmaxState<Wide>& state, Wide* scores, Wide scale, std::int64_t valid,
                                   std::int64_t n) {
  const Wide maximum = std::max(state.maximum, scale * simd::largest(scores, valid));
  Wide sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < valid; ++i) {
    const Wide p = simd::exp(scale * scores[i] - maximum);
    scores[i] = p;
    sum += p;
  }
  std::fill(scores + valid, scores + n, Wide(0));
  const Wide factor = valid > 0 && state.sum > Wide(0) ? std::exp(state.maximum - maximum) : Wide(1);
  state = {maximum, state.sum * factor + sum};
  return factor;
}

// Replaces `scores` by probabilities and d_probability by the gradient of the unscaled scores, both by zero from
// `valid` on. delta is the sum over the row of d(result) * result.
template <class Wide>
TESSERA_INLINE void softmax_row_gradient(Wide* scores, Wide* d_probability, Wide scale, Wide logsumexp, Wide delta,
                                         std::int64_t valid, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < valid; ++i) {
    const Wide p = simd::exp(scale * scores[i] - logsumexp);
    scores[i] = p;
    d_probability[i] = p * (d_probability[i] - delta) * scale;
  }
  std::fill(scores + valid, scores + n, Wide(0));
  std::fill(d_probability + valid, d_probability + n, Wide(0));
}

template <class Wide>
TESSERA_INLINE Wide dot(const Wide* a, const Wide* b, std::int64_t n) {
  Wide result = 0;
#pragma omp simd reduction(+ : result)
  for (std::int64_t i = 0; i < n; ++i) result += a[i] * b[i];
  return result;
}

}  // namespace tessera::ops

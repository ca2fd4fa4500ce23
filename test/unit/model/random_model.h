// A small model with every kind of layer, random weights and a batch of two documents and three sequences, in float64.
#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/tensor.h>

#include "support/composed_model.h"
#include "support/example_config.h"

namespace tessera::test {

inline architecture::ModelConfig small_config() {
  architecture::ModelConfig c = example_config(1);
  c.router_aux_loss_coef = 0.1;
  c.initializer_range = 0.3;
  return c;
}

inline void fill_weights(const architecture::Architecture& architecture, const ComposedModel& model) {
  fill_initial_values(architecture, model, 3);
}

// Returns sequences [first, first + count) of an endless batch of sequences of 5 tokens.
inline Batch batch_of(std::int64_t first, std::int64_t count) {
  constexpr std::int64_t length = 5;
  const at::Tensor token = at::arange(first * length, (first + count) * length, at::kLong);
  const at::Tensor ids = at::remainder(token.mul(token).add(token.mul(7)).add(3), 31);
  const at::Tensor starts = at::arange(0, (count + 1) * length, length, at::kLong);
  return {ids, at::remainder(ids.mul(5).add(1), 31), at::remainder(token, length), starts, starts};
}

}  // namespace tessera::test

// How autograd functions reach a Weight. The graph keeps a pointer to the Weight, never its tensor, because the memory
// may be freed after forward and gathered elsewhere before backward.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "device/weight.h"

namespace tessera::ops {

// Returns the value, which must be bound.
[[nodiscard]] inline const at::Tensor& bound_value(const device::Weight& weight) {
  base::expect(weight.value().storage().data() != nullptr || weight.value().numel() == 0,
               "a freed parameter is used: no memory is bound to its value");
  return weight.value();
}

// Returns the gradient buffer, which must be bound.
[[nodiscard]] inline const at::Tensor& bound_gradient(const device::Weight& weight) {
  base::expect(weight.gradient().storage().data() != nullptr || weight.gradient().numel() == 0,
               "no gradient buffer is bound to a parameter in backward");
  return weight.gradient();
}

// Wraps the pointer for AutogradContext::saved_data. The Weight must outlive the graph.
[[nodiscard]] inline c10::IValue as_saved(const device::Weight* weight) {
  return {static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(weight))};
}

// Returns the pointer that as_saved wrapped; null if null was saved.
[[nodiscard]] inline const device::Weight* saved_weight(const c10::IValue& saved) {
  return reinterpret_cast<const device::Weight*>(static_cast<std::intptr_t>(saved.toInt()));
}

// Returns the anchor, which makes results require a gradient, or an undefined tensor for null.
[[nodiscard]] inline at::Tensor anchor(const device::Weight* weight) {
  return weight == nullptr ? at::Tensor() : weight->anchor();
}

}  // namespace tessera::ops

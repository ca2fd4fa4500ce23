// Begins the graph of a chain at an input, and keeps of the input only the gradient that reaches it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace tessera::executor {

// Receives the gradient of an input.
struct Arrival {
  at::Tensor gradient;  // undefined if no path of backward led to the input
};

// Returns a tensor with the memory of `value`, at which a new graph begins. Backward leaves its gradient in `arrival`.
// The graph keeps the memory only as long as its operations need it; a leaf would be kept by the whole graph.
// Precondition: `value` carries no graph.
[[nodiscard]] at::Tensor enter(const at::Tensor& value, const std::shared_ptr<Arrival>& arrival);

}  // namespace tessera::executor

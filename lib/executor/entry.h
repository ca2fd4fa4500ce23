// Where a chain's graph begins: an input that remembers nothing but the gradient that reaches it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace tessera::executor {

// What backward brought to an input; undefined if no path led to it.
struct Arrival {
  at::Tensor gradient;
};

// A tensor with the memory of `value`, at which a new graph begins: backward leaves its gradient in `arrival`. Unlike a
// leaf, the graph keeps the memory only as far as its operations need it. `value` must carry no graph.
[[nodiscard]] at::Tensor enter(const at::Tensor& value, const std::shared_ptr<Arrival>& arrival);

}  // namespace tessera::executor

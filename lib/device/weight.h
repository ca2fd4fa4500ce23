// One use of a parameter by a segment: a tensor whose storage comes and goes, and the gradient buffer beside it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "device/place.h"

namespace tessera::device {

// `value` and `gradient` keep their identity and shape for the whole run; only their storages' data pointers are
// swapped (bind), so that tensors saved by autograd see the present memory and version counters stay untouched. Not
// bound: null pointer. Products with a Weight add into `gradient` in backward. Not copyable; its address is stable
// while a graph may refer to it.
class Weight {
 public:
  // `value` of `compute` type, `gradient` of `master` type, both of `shape` at `place`, unbound.
  Weight(std::vector<std::int64_t> shape, at::ScalarType compute, at::ScalarType master, Place place = Place::cpu);
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  [[nodiscard]] const at::Tensor& value() const { return value_; }
  // Where backward adds. Precondition: a gradient buffer is bound.
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  // An empty leaf that requires a gradient: products take it along so that their result requires one even if the other
  // input does not.
  [[nodiscard]] const at::Tensor& anchor() const { return anchor_; }
  [[nodiscard]] std::size_t value_bytes() const;
  [[nodiscard]] std::size_t gradient_bytes() const;

  // The memory is not owned; it must hold value_bytes() and outlive the binding. null unbinds.
  void bind_value(void* data);
  void bind_gradient(void* data);

 private:
  at::Tensor value_, gradient_, anchor_;
};

}  // namespace tessera::device

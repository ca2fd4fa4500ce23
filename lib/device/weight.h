// One use of a parameter by a segment: a tensor whose memory is bound and unbound during a step, and the buffer for its
// gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "device/place.h"

namespace tessera::device {

// `value` and `gradient` keep their identity and shape for the whole run; binding replaces only their storages' data
// pointers, so that tensors saved by autograd see the current memory and version counters stay untouched. An unbound
// tensor has a null pointer. Products with a Weight add into `gradient` in backward. A Weight cannot be copied, and its
// address must stay the same while a graph may refer to it.
class Weight {
 public:
  // Makes `value` of type `compute` and `gradient` of type `master`, both of `shape` at `place` and unbound.
  Weight(std::vector<std::int64_t> shape, at::ScalarType compute, at::ScalarType master, Place place = Place::cpu);
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  [[nodiscard]] const at::Tensor& value() const { return value_; }
  // Returns the tensor that backward adds to. Precondition: a gradient buffer is bound.
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  // Returns an empty leaf that requires a gradient. Products take it as an input, so that their result requires a
  // gradient even if the other input does not.
  [[nodiscard]] const at::Tensor& anchor() const { return anchor_; }
  [[nodiscard]] std::size_t value_bytes() const;
  [[nodiscard]] std::size_t gradient_bytes() const;

  // Bind memory that the Weight does not own; null unbinds. It must hold value_bytes() or gradient_bytes() and outlive
  // the binding.
  void bind_value(void* data);
  void bind_gradient(void* data);

 private:
  at::Tensor value_, gradient_, anchor_;
};

}  // namespace tessera::device

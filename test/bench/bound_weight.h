// A Weight with memory of its own, filled with random numbers.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <utility>
#include <vector>

#include "device/weight.h"

namespace tessera::bench {

struct BoundWeight {
  explicit BoundWeight(std::vector<std::int64_t> shape)
      : value(at::randn(shape).mul_(0.02)),
        gradient(at::zeros(shape)),
        weight(std::move(shape), at::kFloat, at::kFloat) {
    weight.bind_value(value.data_ptr());
    weight.bind_gradient(gradient.data_ptr());
  }
  at::Tensor value, gradient;
  device::Weight weight;
};

}  // namespace tessera::bench

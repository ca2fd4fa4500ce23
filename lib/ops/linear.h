// Dense products with Weights.
//
// Backward adds the weights' gradients straight into Weight::gradient() and reads Weight::value() again, so a weight
// may be freed after forward and gathered elsewhere before backward. The value must be bound while forward or backward
// runs, the gradient buffer while backward runs. The Weights must outlive the graph. Without autograd nothing is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "device/weight.h"

namespace tessera::ops {

// Returns input * weight^T + bias: input [tokens, in], weight [out, in], bias [out] or null -> [tokens, out], of type
// `result` (default: the input's). Operands narrower than float32 are summed in float32 (product.h).
[[nodiscard]] at::Tensor linear(const at::Tensor& input, device::Weight& weight, device::Weight* bias = nullptr,
                                std::optional<at::ScalarType> result = std::nullopt);

struct LinearWeight {
  device::Weight* weight = nullptr;  // [out, in]
  device::Weight* bias = nullptr;    // [out], or null
};

// Returns the products of one input with several weights, in order; backward forms the gradient of the input in one
// buffer.
[[nodiscard]] std::vector<at::Tensor> linear(const at::Tensor& input, const std::vector<LinearWeight>& weights);

}  // namespace tessera::ops

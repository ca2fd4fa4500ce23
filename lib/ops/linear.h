// Dense products with Weights.
//
// Backward adds the weights' gradients straight into Weight::gradient() and reads Weight::value() again, so the weight
// may have been freed and gathered elsewhere in between; it must be bound, and the buffers too, while forward or
// backward runs. The Weights must outlive the graph. Without autograd nothing is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "device/weight.h"

namespace tessera::ops {

// input [tokens, in], weight [out, in], bias [out] or null -> [tokens, out], in `result` type (default: the input's).
// A compute type narrower than float32 is multiplied with operands widened block by block, and summed in float32.
[[nodiscard]] at::Tensor linear(const at::Tensor& input, device::Weight& weight, device::Weight* bias = nullptr,
                                std::optional<at::ScalarType> result = std::nullopt);

struct LinearWeight {
  device::Weight* weight = nullptr;  // [out, in]
  device::Weight* bias = nullptr;    // [out], or null
};

// Several products of one input, in order; the gradient of the input is formed in one buffer.
[[nodiscard]] std::vector<at::Tensor> linear(const at::Tensor& input, const std::vector<LinearWeight>& weights);

}  // namespace tessera::ops

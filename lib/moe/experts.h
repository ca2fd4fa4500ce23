// The local experts: SwiGLU feed-forward networks on the rows of their slots.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/weight.h"
#include "moe/expand.h"
#include "ops/grouped_product.h"

namespace tessera::moe {

struct ExpertWeights {
  device::Weight* gate = nullptr;  // [experts, intermediate, hidden]
  device::Weight* up = nullptr;    // [experts, intermediate, hidden]
  device::Weight* down = nullptr;  // [experts, hidden, intermediate]
};

// Returns [rows, hidden]: for each row the sum over its slots of weight * expert(row). rows [rows, hidden]; weight
// [slots] in received order, in the wide type. One autograd function: backward adds into the three gradient buffers and
// returns the gradients of rows and weight. Keeps rows, weight, and the gate and up products [slots, intermediate].
[[nodiscard]] at::Tensor run_experts(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                                     const ExpertWeights& weights, ops::GroupedPath path);

}  // namespace tessera::moe

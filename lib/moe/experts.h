// The local experts: feed-forward networks on the rows of their slots.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "device/weight.h"
#include "moe/expand.h"
#include "moe/expert_function.h"
#include "ops/grouped_product.h"

namespace tessera::moe {

struct ExpertWeights {
  std::vector<device::Weight*> into;       // [experts, I, hidden], one for each input of the function
  std::vector<device::Weight*> into_bias;  // [experts, I], one for each input; or none
  device::Weight* out = nullptr;           // [experts, hidden, I]
  device::Weight* out_bias = nullptr;      // [experts, hidden], or null
};

// Returns [rows, hidden]: for each row the sum over its slots of weight * expert(row). rows [rows, hidden]; weight
// [slots] in received order, in the wide type. One autograd function: backward adds into the gradient buffers and
// returns the gradients of rows and weight. Keeps rows, weight, and the inputs of `function` [slots, I], which must
// outlive the graph.
[[nodiscard]] at::Tensor run_experts(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                                     const ExpertWeights& weights, const ExpertFunction& function,
                                     ops::GroupedPath path);

}  // namespace tessera::moe

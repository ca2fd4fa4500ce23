// The local experts: feed-forward networks on the rows of their slots.
#pragma once

#include <ATen/core/Tensor.h>

#include "moe/expand.h"
#include "moe/expert_function.h"
#include "moe/expert_weights.h"
#include "ops/grouped_product.h"

namespace tessera::moe {

// Returns [rows, hidden]: for each row the sum over its slots of weight * expert(row). rows [rows, hidden]; weight
// [slots] in received order, in the wide type. One autograd function: backward adds into the gradient buffers and
// returns the gradients of rows and weight. Keeps rows, weight, and the inputs of `function` [slots, I], which must
// outlive the graph.
[[nodiscard]] at::Tensor run_experts(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                                     const ExpertWeights& weights, const ExpertFunction& function,
                                     ops::GroupedPath path);

}  // namespace tessera::moe

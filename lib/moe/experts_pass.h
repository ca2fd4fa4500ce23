// Inputs and results of one pass over the local experts. Two implementations are tested against each other: expert by
// expert (experts.cpp) and all slots at once (here).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "moe/expand.h"
#include "moe/expert_function.h"
#include "moe/expert_weights.h"
#include "moe/slot_sum_gpu.h"
#include "ops/grouped_product.h"

namespace tessera::moe {

enum class Keep : std::uint8_t { nothing, for_backward };

struct ForwardResult {
  at::Tensor rows;                 // [rows, hidden]
  std::vector<at::Tensor> inputs;  // of the function: [slots, I], with Keep::for_backward
  gpu::SlotsByRow by_row;          // with Keep::for_backward on a GPU
};

struct BackwardInputs {
  at::Tensor rows, weight, row, count;  // weight in the slots' order by expert (ExpertOrder)
  std::vector<at::Tensor> inputs;
  gpu::SlotsByRow by_row;  // on a GPU only
  at::Tensor d_result;
};

struct BackwardResult {
  at::Tensor d_rows;    // of the type of `rows`, or wide
  at::Tensor d_weight;  // wide, in the slots' order by expert
};

// Runs all slots at once by grouped products: on GPUs, and on the CPU with GroupedPath::grouped_mm. `weight` is in the
// slots' order by expert.
[[nodiscard]] ForwardResult forward_at_once(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                                            const ExpertWeights& weights, const ExpertFunction& function,
                                            ops::GroupedPath path, Keep keep);
[[nodiscard]] BackwardResult backward_at_once(const BackwardInputs& in, const ExpertWeights& weights,
                                              const ExpertFunction& function, ops::GroupedPath path);

}  // namespace tessera::moe

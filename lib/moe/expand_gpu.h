// The receiving side of token dispatch on a GPU, by LibTorch's kernels: the same results as on the CPU.
#pragma once

#include "moe/expand.h"

namespace tessera::moe::gpu {

// As moe::order_by_expert.
[[nodiscard]] ExpertOrder order_by_expert(const at::Tensor& slot, const at::Tensor& source_row_count,
                                          const at::Tensor& source_expert_count);

}  // namespace tessera::moe::gpu

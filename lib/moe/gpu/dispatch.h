// Both sides of token dispatch on a GPU, by LibTorch's kernels: the same results as on the CPU.
#pragma once

#include <cstdint>
#include <span>

#include "moe/expand.h"
#include "moe/pack.h"

namespace tessera::moe::gpu {

// As moe::plan_send, which has checked the bounds.
[[nodiscard]] SendPlan plan_send(const Slots& slots, std::int64_t tokens, std::span<const std::int64_t> bounds,
                                 Routed routed);

// As moe::order_by_expert.
[[nodiscard]] ExpertOrder order_by_expert(const at::Tensor& slot, const at::Tensor& source_row_count,
                                          const at::Tensor& source_expert_count);

}  // namespace tessera::moe::gpu

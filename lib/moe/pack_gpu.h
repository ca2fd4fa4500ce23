// The sending side of token dispatch on a GPU, by LibTorch's kernels: the same results as on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "moe/pack.h"

namespace tessera::moe::gpu {

// As moe::plan_send, which has checked the bounds.
[[nodiscard]] SendPlan plan_send(const Slots& slots, std::int64_t tokens, std::span<const std::int64_t> bounds,
                                 Routed routed);

// As ops::take_rows: normed [tokens, hidden], row_token [rows] int64 -> [rows, hidden]; backward sums by a kernel of
// our own (moe/slot_sum_gpu.h).
[[nodiscard]] at::Tensor send_rows(const at::Tensor& normed, const at::Tensor& row_token);

}  // namespace tessera::moe::gpu

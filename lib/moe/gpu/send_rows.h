// The rows to send, on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::moe::gpu {

// As ops::take_rows: normed [tokens, hidden], row_token [rows] int64 -> [rows, hidden]; backward sums by a kernel of
// our own (moe/gpu/slot_sum.h).
[[nodiscard]] at::Tensor send_rows(const at::Tensor& normed, const at::Tensor& row_token);

}  // namespace tessera::moe::gpu

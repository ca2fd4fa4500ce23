// Sums of rows on a GPU, in the order of an index, by a kernel of our own (moe/cuda/slot_sum.h). Without autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera::moe::gpu {

// The inverse of an index: for each row its slots.
struct SlotsByRow {
  at::Tensor slot;   // [slots] int64: by row, then ascending
  at::Tensor first;  // [rows + 1] int64: row r has slot[first[r]] to slot[first[r + 1] - 1]
};

// row [slots] int64 on the GPU, each within `rows`, which is below 2^31. Sorts: once for all sums over the same slots.
[[nodiscard]] SlotsByRow slots_by_row(const at::Tensor& row, std::int64_t rows);

// values [slots, n], float32 or bfloat16 -> [rows, n] of `type`, the same or narrower: for each row the sum of its
// slots' values, in float32 and in ascending order. second_values: undefined, or like `values`; the slots' values are
// the sums of both. addend: undefined, or [rows, n] of `type`, which sums begin with.
[[nodiscard]] at::Tensor sum_slots(const at::Tensor& values, const SlotsByRow& slots, at::ScalarType type,
                                   const at::Tensor& second_values = {}, const at::Tensor& addend = {});

}  // namespace tessera::moe::gpu

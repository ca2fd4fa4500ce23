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

// Inverts `row` [slots] int64 on the GPU, each within `rows`, which is below 2^31. It sorts: call it once for all sums
// over the same slots.
[[nodiscard]] SlotsByRow slots_by_row(const at::Tensor& row, std::int64_t rows);

// Sums each row's slots: values [slots, n], float32 or bfloat16 -> [rows, n] of `type`, the same or narrower. Adds in
// float32, in ascending order of slots. second_values: undefined, or like `values`; a slot's value is then the sum of
// both. addend: undefined, or [rows, n] of `type`, with which sums begin.
[[nodiscard]] at::Tensor sum_slots(const at::Tensor& values, const SlotsByRow& slots, at::ScalarType type,
                                   const at::Tensor& second_values = {}, const at::Tensor& addend = {});

}  // namespace tessera::moe::gpu

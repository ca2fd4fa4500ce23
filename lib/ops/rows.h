// Selecting rows and adding rows, each the other's gradient. Sums run in index order: same bits every time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera::ops {

// rows [n, hidden], index [m] int64 -> [m, hidden], differentiable: backward adds (add_rows).
[[nodiscard]] at::Tensor take_rows(const at::Tensor& rows, const at::Tensor& index);

// rows [m, hidden], index [m] int64 with values below n -> [n, hidden] of sums, in the wide type inside;
// differentiable: backward takes rows. An index that never occurs gives a zero row.
[[nodiscard]] at::Tensor sum_rows(const at::Tensor& rows, const at::Tensor& index, std::int64_t n);

// sum[index[i]] += rows[i]; no autograd. sum [n, hidden] and rows [m, hidden] have contiguous rows; their types may
// differ.
void add_rows(const at::Tensor& sum, const at::Tensor& index, const at::Tensor& rows);

}  // namespace tessera::ops

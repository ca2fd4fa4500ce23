// Selecting rows, and adding rows, which is its gradient. Sums run in index order: same bits every time.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops {

// rows [n, hidden], index [m] int64 -> [m, hidden], differentiable: backward adds (add_rows), in the
// wide type inside.
[[nodiscard]] at::Tensor take_rows(const at::Tensor& rows, const at::Tensor& index);

// sum[index[i]] += rows[i], index [m] int64 within the rows of `sum` (checked on the CPU); no autograd. sum [n, hidden]
// and rows [m, hidden] have contiguous rows; their types may differ.
void add_rows(const at::Tensor& sum, const at::Tensor& index, const at::Tensor& rows);

}  // namespace tessera::ops

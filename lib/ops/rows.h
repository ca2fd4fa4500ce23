// Selects rows, and adds rows, which is the gradient of selecting. Sums run in index order, so their bits are the same
// every time.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops {

// Returns the rows `index`: rows [n, hidden], index [m] int64 -> [m, hidden]. Differentiable: backward sums with
// add_rows in the wide type.
[[nodiscard]] at::Tensor take_rows(const at::Tensor& rows, const at::Tensor& index);

// Adds rows[i] to sum[index[i]] for every i, without autograd. index [m] int64 within the rows of `sum` (checked on the
// CPU); sum [n, hidden] and rows [m, hidden] have contiguous rows; their types may differ.
void add_rows(const at::Tensor& sum, const at::Tensor& index, const at::Tensor& rows);

}  // namespace tessera::ops

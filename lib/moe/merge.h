// Token combine: partial sums come back to their tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "moe/pack.h"

namespace tessera::moe {

// residual [tokens, hidden] + for each token the sum of its combined_rows [rows, hidden] by row_token [rows] int64, in
// row order; differentiable. Tokens without rows keep the residual.
[[nodiscard]] at::Tensor merge(const at::Tensor& residual, const at::Tensor& combined_rows, const at::Tensor& row_token,
                               Rows rows = Rows::any);

}  // namespace tessera::moe

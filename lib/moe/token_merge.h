// Token combine: adds the partial sums that come back from the experts to their tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include "moe/pack.h"

namespace tessera::moe {

// Returns residual [tokens, hidden] plus, for each token, the sum of its combined_rows [rows, hidden], in row order;
// row_token [rows] int64 has the token of each row. Differentiable. Tokens without rows keep the residual.
[[nodiscard]] at::Tensor merge(const at::Tensor& residual, const at::Tensor& combined_rows, const at::Tensor& row_token,
                               Rows rows = Rows::any);

}  // namespace tessera::moe

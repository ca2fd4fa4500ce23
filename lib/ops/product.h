// The three products of a matrix stored [outer, inner], without autograd: forward, and the gradients of rows and
// matrix.
//
// Sums are in float32 at least. On the CPU narrower operands are widened first (a matrix block by block, never whole).
// On a GPU both operands are converted to the narrower of their types and the kernels sum in float32. Zero rows are
// allowed.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops {

// Sets `result` [n, outer] to rows [n, inner] * matrix^T; its type is the rows' or wide.
void product_into(const at::Tensor& result, const at::Tensor& rows, const at::Tensor& matrix);

// Whether multiply_back_out overwrites its result or adds to it.
enum class Into : std::uint8_t { overwrite, add };

// Sets `result` [n, inner] to d [n, outer] * matrix, or adds the product to it; its type is wide, or on a GPU the
// operands'.
void multiply_back_out(const at::Tensor& result, const at::Tensor& d, const at::Tensor& matrix, Into into);

// gradient [outer, inner] += d^T [n, outer] * rows [n, inner], in the gradient's type.
void add_outer_product(const at::Tensor& gradient, const at::Tensor& d, const at::Tensor& rows);

}  // namespace tessera::ops

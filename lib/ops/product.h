// The three products behind every Weight, without autograd. A matrix is stored [outer, inner].
//
// Sums are in float32 at least. On the CPU operands narrower than that are widened (a matrix block by block, never
// whole); on a GPU its products do so by themselves, from operands of one type: the narrower of both. Zero rows are
// fine.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops {

// rows [n, inner] * matrix^T -> result [n, outer], overwritten; its type is the rows' or wide.
void product_into(const at::Tensor& result, const at::Tensor& rows, const at::Tensor& matrix);

// Whether multiply_back_out overwrites its result or adds to it.
enum class Into : std::uint8_t { overwrite, add };

// d [n, outer] * matrix -> result [n, inner]; its type is wide, or on a GPU the operands'.
void multiply_back_out(const at::Tensor& result, const at::Tensor& d, const at::Tensor& matrix, Into into);

// gradient [outer, inner] += d^T [n, outer] * rows [n, inner], in the gradient's type.
void add_outer_product(const at::Tensor& gradient, const at::Tensor& d, const at::Tensor& rows);

}  // namespace tessera::ops

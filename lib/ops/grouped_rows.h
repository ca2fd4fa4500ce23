// The three products of product.h for rows sorted by group, without autograd. counts [groups] int64 are the numbers of
// rows; if they are not on the CPU, the host waits for them unless the path is grouped_mm.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "ops/grouped_product.h"
#include "ops/product.h"

namespace tessera::ops {

// Calls body(group, first row, number of rows) for every group that has rows, in order.
void for_groups(const at::Tensor& counts, const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body);

// Multiplies each row by its group's transposed matrix: rows [n, inner], weight [groups, outer, inner] -> [n, outer] of
// the rows' type.
[[nodiscard]] at::Tensor grouped_product(const at::Tensor& rows, const at::Tensor& counts, const at::Tensor& weight,
                                         GroupedPath path);

// Multiplies each row of d by its group's matrix: d [n, outer] -> [n, inner] of the weight's type, or, by per_group on
// the CPU, of its wide type.
[[nodiscard]] at::Tensor grouped_multiply_back(const at::Tensor& d, const at::Tensor& counts, const at::Tensor& weight,
                                               GroupedPath path);

// Adds to each group's gradient: gradient [groups, outer, inner] += per group d^T [n, outer] * rows [n, inner]. By
// grouped_mm on a GPU this takes a temporary tensor of the gradient's shape in the rows' type.
void add_grouped_outer_products(const at::Tensor& gradient, const at::Tensor& d, const at::Tensor& rows,
                                const at::Tensor& counts, GroupedPath path);

}  // namespace tessera::ops

// The three products of product.h for rows sorted by group, without autograd. counts [groups] int64; where they are not
// on the CPU, the host waits for them unless the path is grouped_mm.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "ops/grouped_product.h"
#include "ops/product.h"

namespace tessera::ops {

// body(group, first row, rows) for every group that has rows, in order.
void for_groups(const at::Tensor& counts, const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body);

// rows [n, inner], weight [groups, outer, inner] -> [n, outer] of the rows' type.
[[nodiscard]] at::Tensor grouped_product(const at::Tensor& rows, const at::Tensor& counts, const at::Tensor& weight,
                                         GroupedPath path);

// d [n, outer] -> [n, inner] of the weight's type; on the CPU, per group, wide.
[[nodiscard]] at::Tensor grouped_multiply_back(const at::Tensor& d, const at::Tensor& counts, const at::Tensor& weight,
                                               GroupedPath path);

// gradient [groups, outer, inner] += per group d^T [n, outer] * rows [n, inner]. By grouped_mm on a GPU there is a
// product of the gradient's shape in the rows' type meanwhile.
void add_grouped_outer_products(const at::Tensor& gradient, const at::Tensor& d, const at::Tensor& rows,
                                const at::Tensor& counts, GroupedPath path);

}  // namespace tessera::ops

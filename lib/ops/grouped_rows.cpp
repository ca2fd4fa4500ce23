#include "ops/grouped_rows.h"

#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "ops/product.h"
#include "ops/wide_type.h"

namespace tessera::ops {
namespace {

at::Tensor group_ends(const at::Tensor& counts, at::Device device) {
  return counts.cumsum(0).to(at::kInt).to(device, /*non_blocking=*/true);
}

}  // namespace

void for_groups(const at::Tensor& counts, const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) {
  const auto on_host = counts.cpu();  // the host waits if they are elsewhere
  const auto* count = on_host.const_data_ptr<std::int64_t>();
  std::int64_t first = 0;
  for (std::int64_t group = 0; group < on_host.numel(); ++group) {
    if (count[group] > 0) body(group, first, count[group]);
    first += count[group];
  }
}

at::Tensor grouped_product(const at::Tensor& rows, const at::Tensor& counts, const at::Tensor& weight,
                           GroupedPath path) {
  // at::_grouped_mm refuses the strides of an empty tensor.
  if (path == GroupedPath::grouped_mm && rows.size(0) > 0)
    return at::_grouped_mm(rows, weight.transpose(1, 2), group_ends(counts, rows.device()));
  const auto result = at::empty({rows.size(0), weight.size(1)}, rows.options().requires_grad(false));
  if (rows.size(0) == 0) return result;
  for_groups(counts, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
    product_into(result.narrow(0, first, count), rows.narrow(0, first, count), weight.select(0, group));
  });
  return result;
}

at::Tensor grouped_multiply_back(const at::Tensor& d, const at::Tensor& counts, const at::Tensor& weight,
                                 GroupedPath path) {
  if (path == GroupedPath::grouped_mm && d.size(0) > 0)
    return at::_grouped_mm(d.to(weight.scalar_type()).contiguous(), weight, group_ends(counts, d.device()));
  const bool is_wide = d.is_cpu() && path == GroupedPath::per_group;
  const auto type = is_wide ? wide_type(weight.scalar_type()) : weight.scalar_type();
  const auto result = at::empty({d.size(0), weight.size(2)}, weight.options().dtype(type).requires_grad(false));
  if (d.size(0) == 0) return result;
  for_groups(counts, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
    multiply_back_out(result.narrow(0, first, count), d.narrow(0, first, count), weight.select(0, group),
                      Into::overwrite);
  });
  return result;
}

void add_grouped_outer_products(const at::Tensor& gradient, const at::Tensor& d, const at::Tensor& rows,
                                const at::Tensor& counts, GroupedPath path) {
  if (rows.size(0) == 0) return;
  // On the CPU at::_grouped_mm would be a loop that needs a second tensor of the gradient's shape.
  if (path == GroupedPath::grouped_mm && !rows.is_cpu()) {
    at::Tensor sum = gradient;
    const auto product = at::_grouped_mm(d.t(), rows, group_ends(counts, rows.device()));
    // For a group without rows some GPUs leave memory uninitialised (pytorch issue 172439), perhaps with NaN.
    const auto has_rows = counts.to(rows.device(), /*non_blocking=*/true).gt(0).view({-1, 1, 1});
    sum.add_(at::where(has_rows, product, at::zeros({}, product.options())));
    return;
  }
  for_groups(counts, [&](std::int64_t group, std::int64_t first, std::int64_t count) {
    add_outer_product(gradient.select(0, group), d.narrow(0, first, count), rows.narrow(0, first, count));
  });
}

}  // namespace tessera::ops

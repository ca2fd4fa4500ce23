#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "moe/activation.h"
#include "moe/experts_pass.h"
#include "ops/grouped_rows.h"
#include "ops/rows.h"
#include "ops/weight_access.h"
#include "ops/wide_type.h"

namespace tessera::moe {
namespace {

using ops::bound_gradient;
using ops::bound_value;
using ops::GroupedPath;

at::TensorOptions wide_options(const at::Tensor& rows) {
  return rows.options().dtype(ops::wide_type(rows.scalar_type())).requires_grad(false);
}

gpu::SlotsByRow slots_by_row(const at::Tensor& rows, const at::Tensor& row) {
  return rows.is_cpu() ? gpu::SlotsByRow() : gpu::slots_by_row(row, rows.size(0));
}

// Returns, in the type of `rows`, the sum of each row's slots' values (and of `second_values`, if defined), formed in
// the wide type.
at::Tensor sum_by_row(const at::Tensor& rows, const at::Tensor& row, const gpu::SlotsByRow& by_row,
                      const at::Tensor& values, const at::Tensor& second_values = {}) {
  if (!rows.is_cpu()) return gpu::sum_slots(values, by_row, rows.scalar_type(), second_values);
  const auto sums = at::zeros(rows.sizes(), wide_options(rows));
  ops::add_rows(sums, row, second_values.defined() ? at::add(values.to(sums.scalar_type()), second_values) : values);
  return sums.to(rows.scalar_type());
}

}  // namespace

ForwardResult forward_at_once(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                              const ExpertWeights& weights, GroupedPath path, Keep keep) {
  const auto multiply = [&](const at::Tensor& x, device::Weight& matrix) {
    return ops::grouped_product(x, order.count, bound_value(matrix), path);
  };
  ForwardResult result;
  {
    const auto x = at::index_select(rows, 0, order.row);
    result.gate = multiply(x, *weights.gate);
    result.up = multiply(x, *weights.up);
  }
  const auto activation = at::empty_like(result.gate);
  activate(result.gate, result.up, weight, activation);
  if (keep == Keep::nothing) result.gate = result.up = at::Tensor();
  result.by_row = slots_by_row(rows, order.row);
  result.rows = sum_by_row(rows, order.row, result.by_row, multiply(activation, *weights.down));
  return result;
}

BackwardResult backward_at_once(const BackwardInputs& in, const ExpertWeights& weights, GroupedPath path) {
  const auto multiply_back = [&](const at::Tensor& d, device::Weight& matrix) {
    return ops::grouped_multiply_back(d, in.count, bound_value(matrix), path);
  };
  const auto x = at::index_select(in.rows, 0, in.row), d_y = at::index_select(in.d_result, 0, in.row);
  const auto d_a = multiply_back(d_y, *weights.down);
  const ActivationGradient d{at::empty_like(d_a), at::empty_like(d_a), d_a,
                             at::empty({in.row.numel()}, wide_options(in.rows))};
  activate_back(in.gate, in.up, in.weight, d_a, d);
  ops::add_grouped_outer_products(bound_gradient(*weights.down), d_y, d.activation, in.count, path);
  ops::add_grouped_outer_products(bound_gradient(*weights.gate), d.d_gate, x, in.count, path);
  ops::add_grouped_outer_products(bound_gradient(*weights.up), d.d_up, x, in.count, path);
  // Both are added where the sums over slots are formed, without a tensor for their sum.
  auto d_rows = sum_by_row(in.rows, in.row, in.by_row, multiply_back(d.d_gate, *weights.gate),
                           multiply_back(d.d_up, *weights.up));
  return {std::move(d_rows), d.d_weight};
}

}  // namespace tessera::moe

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

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
using ops::Into;

at::TensorOptions wide_options(const at::Tensor& rows) {
  return rows.options().dtype(ops::wide_type(rows.scalar_type())).requires_grad(false);
}

// [slots, n] of the rows' type; the result of a grouped product.
at::Tensor per_slot(const at::Tensor& rows, std::int64_t slots, std::int64_t n) {
  return at::empty({slots, n}, rows.options().requires_grad(false));
}

gpu::SlotsByRow slots_by_row(const at::Tensor& rows, const at::Tensor& row) {
  return rows.is_cpu() ? gpu::SlotsByRow() : gpu::slots_by_row(row, rows.size(0));
}

// Of the type of `rows`: for each of them the sum of its slots' values, formed in the wide type.
at::Tensor sum_by_row(const at::Tensor& rows, const at::Tensor& row, const gpu::SlotsByRow& by_row,
                      const at::Tensor& values) {
  if (!rows.is_cpu()) return gpu::sum_slots(values, by_row, rows.scalar_type());
  const auto sums = at::zeros(rows.sizes(), wide_options(rows));
  ops::add_rows(sums, row, values);
  return sums.to(rows.scalar_type());
}

// d_gate * gate weights + d_up * up weights, summed by row.
at::Tensor gradient_of_rows(const BackwardInputs& in, const ActivationGradient& d, const ExpertWeights& weights,
                            GroupedPath path) {
  const auto &gate = bound_value(*weights.gate), &up = bound_value(*weights.up);
  const auto slots = in.row.numel(), hidden = in.rows.size(1);
  if (!in.rows.is_cpu() && path == GroupedPath::grouped_mm) {
    // They come out in the rows' type: added where they are read, not in a wide copy before.
    const auto by_gate = per_slot(in.rows, slots, hidden), by_up = per_slot(in.rows, slots, hidden);
    ops::grouped_multiply_back_out(by_gate, d.d_gate, in.count, gate, Into::overwrite, path);
    ops::grouped_multiply_back_out(by_up, d.d_up, in.count, up, Into::overwrite, path);
    return gpu::sum_slots(by_gate, in.by_row, in.rows.scalar_type(), by_up);
  }
  const auto d_x = at::empty({slots, hidden}, wide_options(in.rows));
  ops::grouped_multiply_back_out(d_x, d.d_gate, in.count, gate, Into::overwrite, path);
  ops::grouped_multiply_back_out(d_x, d.d_up, in.count, up, Into::add, path);
  return sum_by_row(in.rows, in.row, in.by_row, d_x);
}

}  // namespace

ForwardResult forward_at_once(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                              const ExpertWeights& weights, GroupedPath path, Keep keep) {
  const auto hidden = rows.size(1), inner = weights.gate->value().size(1), slots = order.row.numel();
  const auto multiply = [&](const at::Tensor& x, device::Weight& matrix, std::int64_t n) {
    auto result = per_slot(rows, slots, n);
    ops::grouped_product_into(result, x, order.count, bound_value(matrix), path);
    return result;
  };
  ForwardResult result;
  {
    const auto x = at::index_select(rows, 0, order.row);
    result.gate = multiply(x, *weights.gate, inner);
    result.up = multiply(x, *weights.up, inner);
  }
  const auto activation = per_slot(rows, slots, inner);
  activate(result.gate, result.up, weight, activation);
  if (keep == Keep::nothing) result.gate = result.up = at::Tensor();
  result.by_row = slots_by_row(rows, order.row);
  result.rows = sum_by_row(rows, order.row, result.by_row, multiply(activation, *weights.down, hidden));
  return result;
}

BackwardResult backward_at_once(const BackwardInputs& in, const ExpertWeights& weights, GroupedPath path) {
  const auto inner = in.gate.size(1), slots = in.row.numel();
  const auto x = at::index_select(in.rows, 0, in.row), d_y = at::index_select(in.d_result, 0, in.row);
  const auto d_a = per_slot(in.rows, slots, inner);
  ops::grouped_multiply_back_out(d_a, d_y, in.count, bound_value(*weights.down), Into::overwrite, path);
  const ActivationGradient d{at::empty_like(d_a), at::empty_like(d_a), d_a, at::empty({slots}, wide_options(in.rows))};
  activate_back(in.gate, in.up, in.weight, d_a, d);
  ops::add_grouped_outer_products(bound_gradient(*weights.down), d_y, d.activation, in.count, path);
  ops::add_grouped_outer_products(bound_gradient(*weights.gate), d.d_gate, x, in.count, path);
  ops::add_grouped_outer_products(bound_gradient(*weights.up), d.d_up, x, in.count, path);
  return {gradient_of_rows(in, d, weights, path), d.d_weight};
}

}  // namespace tessera::moe

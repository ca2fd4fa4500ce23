#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>

#include "moe/experts_pass.h"
#include "ops/gpu/elementwise.h"
#include "ops/grouped_rows.h"
#include "ops/rows.h"
#include "ops/weight_access.h"
#include "ops/wide_type.h"

namespace tessera::moe {
namespace {

using ops::bound_gradient;
using ops::bound_value;

at::Tensor zero_sums(const at::Tensor& rows) {
  return at::zeros(rows.sizes(), rows.options().dtype(ops::wide_type(rows.scalar_type())).requires_grad(false));
}

// [slots, n] of the rows' type; the result of a grouped product.
at::Tensor per_slot(const at::Tensor& rows, std::int64_t slots, std::int64_t n) {
  return at::empty({slots, n}, rows.options().requires_grad(false));
}

}  // namespace

ForwardResult forward_at_once(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                              const ExpertWeights& weights, ops::GroupedPath path, Keep keep) {
  const auto hidden = rows.size(1), inner = weights.gate->value().size(1), slots = order.row.numel();
  const auto multiply = [&](const at::Tensor& x, device::Weight& matrix, std::int64_t n) {
    auto result = per_slot(rows, slots, n);
    ops::grouped_product_into(result, x, order.count, bound_value(matrix), path);
    return result;
  };
  auto sums = zero_sums(rows);
  ForwardResult result;
  {
    const auto x = at::index_select(rows, 0, order.row);
    result.gate = multiply(x, *weights.gate, inner);
    result.up = multiply(x, *weights.up, inner);
  }
  const auto activation = ops::gpu::swiglu(result.gate, result.up, weight);
  if (keep == Keep::nothing) result.gate = result.up = at::Tensor();
  ops::add_rows(sums, order.row, multiply(activation, *weights.down, hidden));
  result.rows = sums.to(rows.scalar_type());
  return result;
}

BackwardResult backward_at_once(const BackwardInputs& in, const ExpertWeights& weights, ops::GroupedPath path) {
  const auto hidden = in.rows.size(1), inner = in.gate.size(1), slots = in.row.numel();
  const auto x = at::index_select(in.rows, 0, in.row), d_y = at::index_select(in.d_result, 0, in.row);
  auto d_a = per_slot(in.rows, slots, inner);
  ops::grouped_multiply_back_out(d_a, d_y, in.count, bound_value(*weights.down), ops::Into::overwrite, path);
  const auto d = ops::gpu::swiglu_gradient(in.gate, in.up, in.weight, d_a);
  ops::add_grouped_outer_products(bound_gradient(*weights.down), d_y, d.activation, in.count, path);
  ops::add_grouped_outer_products(bound_gradient(*weights.gate), d.d_gate, x, in.count, path);
  ops::add_grouped_outer_products(bound_gradient(*weights.up), d.d_up, x, in.count, path);
  const auto d_x = zero_sums(x);
  ops::grouped_multiply_back_out(d_x, d.d_gate, in.count, bound_value(*weights.gate), ops::Into::overwrite, path);
  ops::grouped_multiply_back_out(d_x, d.d_up, in.count, bound_value(*weights.up), ops::Into::add, path);
  BackwardResult result{zero_sums(in.rows), d.d_weight};
  ops::add_rows(result.d_rows, in.row, d_x);
  return result;
}

}  // namespace tessera::moe

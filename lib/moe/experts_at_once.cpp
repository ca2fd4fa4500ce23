#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include "moe/experts_pass.h"
#include "moe/number_by_count.h"
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

// The expert of each slot, for biases.
at::Tensor expert_of_slot(const at::Tensor& counts, const at::Tensor& row) {
  return number_by_count(counts.to(row.device()), row.numel());
}

void add_bias(const at::Tensor& result, const at::Tensor& expert, const device::Weight* bias) {
  at::Tensor sum = result;
  sum.add_(at::index_select(bound_value(*bias), 0, expert));
}

// Adds to the gradient of a bias the sum over each expert's slots, which lie side by side.
void add_bias_gradient(const device::Weight* bias, const at::Tensor& d, const at::Tensor& counts) {
  at::Tensor gradient = bound_gradient(*bias);
  if (d.size(0) == 0) return;
  gradient.add_(at::segment_reduce(d.to(gradient.scalar_type()), "sum", counts.to(d.device()), /*indices=*/{},
                                   /*offsets=*/{}, /*axis=*/0, /*unsafe=*/true));
}

}  // namespace

ForwardResult forward_at_once(const at::Tensor& rows, const at::Tensor& weight, const ExpertOrder& order,
                              const ExpertWeights& weights, const ExpertFunction& function, GroupedPath path,
                              Keep keep) {
  const auto multiply = [&](const at::Tensor& x, const device::Weight* matrix) {
    return ops::grouped_product(x, order.count, bound_value(*matrix), path);
  };
  const bool has_biases = !weights.into_bias.empty() || weights.out_bias != nullptr;
  const auto expert = has_biases ? expert_of_slot(order.count, order.row) : at::Tensor();
  ForwardResult result;
  {
    const auto x = at::index_select(rows, 0, order.row);
    for (std::size_t k = 0; k < weights.into.size(); ++k) {
      result.inputs.push_back(multiply(x, weights.into[k]));
      if (!weights.into_bias.empty()) add_bias(result.inputs[k], expert, weights.into_bias[k]);
    }
  }
  const auto activation = at::empty_like(result.inputs[0]);
  function.forward(result.inputs, weight, activation);
  if (keep == Keep::nothing) result.inputs.clear();
  result.by_row = slots_by_row(rows, order.row);
  auto products = multiply(activation, weights.out);
  if (weights.out_bias != nullptr)
    products.add_(at::index_select(bound_value(*weights.out_bias), 0, expert).mul(weight.unsqueeze(1)));
  result.rows = sum_by_row(rows, order.row, result.by_row, products);
  return result;
}

BackwardResult backward_at_once(const BackwardInputs& in, const ExpertWeights& weights, const ExpertFunction& function,
                                GroupedPath path) {
  const auto multiply_back = [&](const at::Tensor& d, const device::Weight* matrix) {
    return ops::grouped_multiply_back(d, in.count, bound_value(*matrix), path);
  };
  const auto x = at::index_select(in.rows, 0, in.row), d_y = at::index_select(in.d_result, 0, in.row);
  const auto d_a = multiply_back(d_y, weights.out);
  FunctionGradient d{{}, d_a, at::empty({in.row.numel()}, wide_options(in.rows))};
  for (std::size_t k = 0; k < function.inputs; ++k) d.d_inputs.push_back(at::empty_like(d_a));
  function.backward(in.inputs, in.weight, d_a, d);
  ops::add_grouped_outer_products(bound_gradient(*weights.out), d_y, d.activation, in.count, path);
  for (std::size_t k = 0; k < function.inputs; ++k)
    ops::add_grouped_outer_products(bound_gradient(*weights.into[k]), d.d_inputs[k], x, in.count, path);
  for (std::size_t k = 0; k < weights.into_bias.size(); ++k)
    add_bias_gradient(weights.into_bias[k], d.d_inputs[k], in.count);
  if (weights.out_bias != nullptr) {
    const auto wide_d = d_y.to(in.weight.scalar_type());
    add_bias_gradient(weights.out_bias, wide_d.mul(in.weight.unsqueeze(1)), in.count);
    const auto bias = at::index_select(bound_value(*weights.out_bias), 0, expert_of_slot(in.count, in.row));
    d.d_weight.add_(at::sum(wide_d.mul(bias), {1}));
  }
  // The last two are added where the sums over slots are formed, without a tensor for their sum.
  auto first = multiply_back(d.d_inputs[0], weights.into[0]);
  for (std::size_t k = 1; k + 1 < function.inputs; ++k) first.add_(multiply_back(d.d_inputs[k], weights.into[k]));
  const auto last = function.inputs > 1 ? multiply_back(d.d_inputs.back(), weights.into.back()) : at::Tensor();
  return {sum_by_row(in.rows, in.row, in.by_row, first, last), d.d_weight};
}

}  // namespace tessera::moe

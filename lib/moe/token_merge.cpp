#include "moe/token_merge.h"

#include <ATen/ops/add.h>
#include <ATen/ops/index_select.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "moe/identity_rows.h"
#include "moe/slot_sum_gpu.h"
#include "ops/rows.h"
#include "ops/wide_type.h"

namespace tessera::moe {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Merge : Function<Merge> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& residual, const at::Tensor& combined_rows,
                            const at::Tensor& row_token, Rows rows) {
    const bool identity = rows == Rows::all_tokens || is_identity(row_token, residual.size(0));
    context->saved_data["identity"] = identity;
    context->save_for_backward({row_token});
    if (identity) return at::add(residual, combined_rows);
    if (!residual.is_cpu()) {
      const auto by_token = gpu::slots_by_row(row_token, residual.size(0));
      return gpu::sum_slots(combined_rows, by_token, residual.scalar_type(), {}, residual);
    }
    const auto sum = residual.to(ops::wide_type(residual.scalar_type()), /*non_blocking=*/false, /*copy=*/true);
    ops::add_rows(sum, row_token, combined_rows);
    return sum.to(residual.scalar_type());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& d = gradients[0];
    if (context->saved_data["identity"].toBool()) return {d, d, {}, {}};
    return {d, at::index_select(d, 0, context->get_saved_variables()[0]), {}, {}};
  }
};

}  // namespace

at::Tensor merge(const at::Tensor& residual, const at::Tensor& combined_rows, const at::Tensor& row_token, Rows rows) {
  base::expect(residual.dim() == 2 && combined_rows.dim() == 2 && residual.size(1) == combined_rows.size(1) &&
                   row_token.numel() == combined_rows.size(0),
               "merge: residual [tokens, hidden], combined_rows [rows, hidden] and row_token [rows] do not fit");
  return Merge::apply(residual, combined_rows, row_token, rows);
}

}  // namespace tessera::moe

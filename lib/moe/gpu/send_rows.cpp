#include "moe/gpu/send_rows.h"

#include <ATen/ops/index_select.h>
#include <torch/csrc/autograd/custom_function.h>

#include "moe/gpu/slot_sum.h"

namespace tessera::moe::gpu {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct SendRows : Function<SendRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& normed, const at::Tensor& row_token) {
    context->save_for_backward({row_token});
    context->saved_data["tokens"] = normed.size(0);
    return at::index_select(normed, 0, row_token);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& gradient = gradients[0];
    const auto by_token = slots_by_row(context->get_saved_variables()[0], context->saved_data["tokens"].toInt());
    return {sum_slots(gradient, by_token, gradient.scalar_type()), {}};
  }
};

}  // namespace

at::Tensor send_rows(const at::Tensor& normed, const at::Tensor& row_token) {
  return SendRows::apply(normed, row_token);
}

}  // namespace tessera::moe::gpu

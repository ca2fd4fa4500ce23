#include "ops/lookup.h"

#include <ATen/ops/index_select.h>

#include "ops/rows.h"
#include "ops/weight_access.h"

namespace tessera::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct Lookup : Function<Lookup> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& ids,
                            [[maybe_unused]] const at::Tensor& weight_anchor, const device::Weight* weight) {
    context->save_for_backward({ids});
    context->saved_data["weight"] = as_saved(weight);
    return at::index_select(bound_value(*weight), 0, ids);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto* weight = saved_weight(context->saved_data["weight"]);
    add_rows(bound_gradient(*weight), context->get_saved_variables()[0], gradients[0]);
    return {{}, {}, {}};
  }
};

}  // namespace

at::Tensor lookup(const at::Tensor& ids, device::Weight& weight) {
  return Lookup::apply(ids, weight.anchor(), &weight);
}

}  // namespace tessera::ops

#include "executor/entry.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"

namespace tessera::executor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct HeldArrival : torch::CustomClassHolder {
  explicit HeldArrival(std::shared_ptr<Arrival> held) : arrival(std::move(held)) {}
  std::shared_ptr<Arrival> arrival;
};

struct Entry : Function<Entry> {
  // `anchor` requires a gradient, so that the result does.
  static at::Tensor forward(AutogradContext* context, [[maybe_unused]] const at::Tensor& anchor,
                            const at::Tensor& value, const std::shared_ptr<Arrival>& arrival) {
    context->saved_data["arrival"] = c10::IValue::make_capsule(c10::make_intrusive<HeldArrival>(arrival));
    return value.variable_data();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto capsule = context->saved_data["arrival"].toCapsule();
    static_cast<HeldArrival*>(capsule.get())->arrival->gradient = std::move(gradients[0]);
    return {{}, {}, {}};
  }
};

}  // namespace

at::Tensor enter(const at::Tensor& value, const std::shared_ptr<Arrival>& arrival) {
  base::expect(!value.requires_grad(), "a value enters a chain with a graph of its own");
  static const at::Tensor anchor = [] {
    auto leaf = at::empty({0});
    leaf.set_requires_grad(true);
    return leaf;
  }();
  return Entry::apply(anchor, value, arrival);
}

}  // namespace tessera::executor

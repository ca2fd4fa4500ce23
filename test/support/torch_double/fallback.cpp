#include "support/torch_double/fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <set>

#include "support/torch_double/alias.h"
#include "support/torch_double/determinism.h"
#include "support/torch_double/synchronisation.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test::torch_double {
namespace {

using c10::IValue;

// Replaces each tensor in a value by visit(tensor).
template <class Visit>
IValue mapped(const IValue& value, const Visit& visit) {
  if (value.isTensor()) return visit(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(visit(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList())
      list.push_back(tensor.has_value() ? std::optional(visit(*tensor)) : std::nullopt);
    return list;
  }
  if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(c10::kCPU);
  return value;
}

// Elementwise operations, by name without overload; of an overload that is generated, the tag may be missing.
const std::set<std::string>& elementwise() {
  static const auto* names = [] {
    auto* found = new std::set<std::string>{"aten::fill_",       "aten::fill",         "aten::masked_fill_",
                                            "aten::masked_fill", "aten::index_fill_",  "aten::_index_put_impl_",
                                            "aten::index_put_",  "aten::floor_divide", "aten::floor_divide_"};
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames())
      if (const auto op = c10::Dispatcher::singleton().findOp(name); op.has_value() && op->hasTag(at::Tag::pointwise))
        found->insert(name.name);
    return found;
  }();
  return *names;
}

bool takes_numbers(const std::string& name) { return is_of_lists(name) || elementwise().count(name) != 0; }

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// It only makes a new view of memory.
bool makes_view(const c10::FunctionSchema& schema) {
  bool views = false;
  for (const auto& argument : schema.arguments()) {
    if (is_written(argument)) return false;
    views = views || argument.alias_info() != nullptr;
  }
  return views;
}

[[noreturn]] void refuse_mixture(const std::string& op, const std::string& argument) {
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but ", op, " got '", argument,
              "' on the cpu beside a tensor on ", device());
}

void check_place(const c10::OperatorHandle& op, const c10::Argument& argument, const IValue& value) {
  [[maybe_unused]] const auto ignored = mapped(value, [&](const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.is_privateuseone()) return tensor;
    const auto& name = op.operator_name().name;
    if (tensor.dim() > 0 || is_written(argument) || !takes_numbers(name)) refuse_mixture(name, argument.name());
    return tensor;
  });
}

void require_kernel(const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU), op.operator_name(),
                              " has no kernel for the CPU that the torch double could run; write one in "
                              "test/support/torch_double/kernels.cpp");
}

}  // namespace

bool is_of_lists(const std::string& operation) { return operation.rfind("aten::_foreach_", 0) == 0; }

void require_one_place(const char* operation, std::initializer_list<at::Tensor> tensors) {
  for (const auto& tensor : tensors)
    if (tensor.defined() && !tensor.is_privateuseone()) refuse_mixture(operation, "a tensor");
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  require_kernel(op);
  const auto& schema = op.schema();
  const auto arguments = stack->size() - schema.arguments().size();
  const bool view = makes_view(schema);
  for (std::size_t i = 0; i < schema.arguments().size(); ++i)
    check_place(op, schema.arguments()[i], (*stack)[arguments + i]);
  if (!view) {
    const auto values = c10::ArrayRef<IValue>(*stack).slice(arguments);
    require_deterministic(schema.name(), values);
    count_operation(op, values);
  }

  AliasScope scope(schema.name(), view ? AliasScope::Use::shape : AliasScope::Use::bytes);
  for (auto i = arguments; i < stack->size(); ++i) {
    const bool written = is_written(schema.arguments()[i - arguments]);
    (*stack)[i] = mapped((*stack)[i],
                         [&](const at::Tensor& tensor) { return written ? scope.written(tensor) : scope.of(tensor); });
  }
  {
    const at::AutoDispatchBelowADInplaceOrView no_graph;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  scope.release();
  for (auto i = stack->size() - schema.returns().size(); i < stack->size(); ++i)
    (*stack)[i] = mapped((*stack)[i], [&](const at::Tensor& tensor) { return scope.back(tensor); });
}

}  // namespace tessera::test::torch_double

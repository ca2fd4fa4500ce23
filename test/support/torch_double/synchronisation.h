// Counts the launches and synchronisations that a GPU would have made.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace tessera::test::torch_double {

void count_launch(const std::string& name);
// Counts a launch, and a synchronisation if CUDA's kernel of the operation makes the host wait.
void count_operation(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

}  // namespace tessera::test::torch_double

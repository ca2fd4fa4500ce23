// Runs the operations for which the double has no kernel of its own.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <initializer_list>
#include <string>

namespace tessera::test::torch_double {

// Runs the CPU kernel of `op` on aliases of its tensors. Refuses a mixture of places: a host tensor is allowed only as
// a number (no dims) that an elementwise operation reads, and where a GPU too takes it from the host.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Returns whether the operation (its name with namespace) works on lists of tensors, as _foreach_add_ does.
[[nodiscard]] bool is_of_lists(const std::string& operation);

// Throws c10::Error unless all defined tensors lie on the device.
void require_one_place(const char* operation, std::initializer_list<at::Tensor> tensors);

}  // namespace tessera::test::torch_double

// Every operation that the double has no kernel of its own for.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <initializer_list>
#include <string>

namespace tessera::test::torch_double {

// Runs the CPU kernel of `op` on aliases of its tensors. Refuses a mixture of places: a tensor of the host is allowed
// only as a number (no dims) that is read by an elementwise operation, and as what a GPU takes from the host too.
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// _foreach_add_ and the like, by name with namespace.
[[nodiscard]] bool is_of_lists(const std::string& operation);

// Throws c10::Error unless all defined ones lie on the device.
void require_one_place(const char* operation, std::initializer_list<at::Tensor> tensors);

}  // namespace tessera::test::torch_double

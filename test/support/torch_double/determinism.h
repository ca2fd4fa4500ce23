// Refuses what a GPU refuses while at::globalContext().deterministicAlgorithms() is on.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace tessera::test::torch_double {

// Throws c10::Error for an operation without a deterministic kernel in CUDA, and for products unless the environment
// gives cuBLAS a workspace of its own (PyTorch, "torch.use_deterministic_algorithms"). `arguments` may be empty for
// products.
void require_deterministic(const std::string& operation, c10::ArrayRef<c10::IValue> arguments);

}  // namespace tessera::test::torch_double

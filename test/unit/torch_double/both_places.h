// Runs an operation on the CPU and on the stand-in for a GPU and compares.
#pragma once

#include <functional>
#include <vector>

#include "support/gradient_check.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test {

using Tensors = std::vector<at::Tensor>;

inline Tensors on_device(const Tensors& tensors) {
  Tensors moved;
  for (const auto& tensor : tensors) moved.push_back(tensor.defined() ? torch_double::to_device(tensor) : tensor);
  return moved;
}

inline bool equal_bits(const at::Tensor& on_double, const at::Tensor& on_cpu) {
  return on_double.is_privateuseone() && on_double.scalar_type() == on_cpu.scalar_type() &&
         on_double.sizes() == on_cpu.sizes() && on_double.cpu().equal(on_cpu);
}

// Checks that `operation` gives the same bits in both places, also in its arguments, which it may write.
inline void check_same(const std::function<Tensors(const Tensors&)>& operation, const Tensors& arguments) {
  Tensors on_cpu;
  for (const auto& argument : arguments) on_cpu.push_back(argument.defined() ? argument.clone() : argument);
  const auto moved = on_device(on_cpu);
  const auto expected = operation(on_cpu), results = operation(moved);
  REQUIRE(results.size() == expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO("result " << i);
    CHECK(equal_bits(results[i], expected[i]));
  }
  for (std::size_t i = 0; i < moved.size(); ++i) {
    INFO("argument " << i);
    if (moved[i].defined()) CHECK(equal_bits(moved[i], on_cpu[i]));
  }
}

// Also compares the gradients of all floating arguments.
inline void check_same_gradients(const std::function<at::Tensor(const Tensors&)>& operation, const Tensors& arguments) {
  const auto gradients = [&](const Tensors& values) {
    Tensors leaves;
    for (const auto& value : values) {
      leaves.push_back(value.detach().clone());
      if (at::isFloatingType(value.scalar_type())) leaves.back().set_requires_grad(true);
    }
    const auto result = operation(leaves);
    result.mul(varied(result.sizes(), 77, result.scalar_type()).to(result.device())).sum().backward();
    Tensors all{result.detach()};
    for (const auto& leaf : leaves)
      if (leaf.requires_grad()) all.push_back(leaf.grad());
    return all;
  };
  const auto expected = gradients(arguments), results = gradients(on_device(arguments));
  for (std::size_t i = 0; i < results.size(); ++i) {
    INFO("gradient " << i << ", of which 0 is the result");
    REQUIRE(results[i].defined() == expected[i].defined());
    if (expected[i].defined()) CHECK(equal_bits(results[i], expected[i]));
  }
}

}  // namespace tessera::test

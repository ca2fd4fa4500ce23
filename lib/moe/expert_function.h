// The elementwise function of an expert, between its products, on the CPU or a GPU. Without autograd.
//
// One file per function; architecture/expert_body.h says which matrices stand around it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace tessera::moe {

// The results of ExpertFunction::backward: contiguous tensors, which it overwrites.
struct FunctionGradient {
  std::vector<at::Tensor> d_inputs;  // [slots, I] of one type: that of the inputs, or (on the CPU) wide
  at::Tensor activation;             // likewise
  at::Tensor d_weight;               // [slots], wide
};

struct ExpertFunction {
  std::string_view name;   // as ExpertBody::name
  std::size_t inputs = 0;  // products of a slot's row that it takes
  // Sets `activation` to f(inputs) * weight of the slot. inputs, activation [slots, I] of one type, weight [slots]
  // wide; all contiguous. Computes in the wide type and rounds once.
  void (*forward)(std::span<const at::Tensor> inputs, const at::Tensor& weight, const at::Tensor& activation) = nullptr;
  // Writes the gradients of inputs and weight, and the activation again, into `result`. d [slots, I] is the gradient of
  // the activation, of the type of result's [slots, I] tensors; result.activation may share its memory.
  void (*backward)(std::span<const at::Tensor> inputs, const at::Tensor& weight, const at::Tensor& d,
                   const FunctionGradient& result) = nullptr;
};

// silu(first) * second.
[[nodiscard]] const ExpertFunction& swiglu();

}  // namespace tessera::moe

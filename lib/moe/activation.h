// SwiGLU times the slot weight, on the CPU or a GPU. Without autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::moe {

// activation = silu(gate) * up * weight of the slot, overwritten. gate, up, activation [slots, I] of one type, weight
// [slots] wide; contiguous. Computed in the wide type, rounded once.
void activate(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& activation);

// Overwritten; contiguous.
struct ActivationGradient {
  at::Tensor d_gate, d_up, activation;  // [slots, I] of one type: that of `gate`, or (on the CPU) wide
  at::Tensor d_weight;                  // [slots], wide
};

// From d = d(activation) [slots, I], of the type of `result`: the gradients, and the activation again, which may take
// the memory of `d`.
void activate_back(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& d,
                   const ActivationGradient& result);

}  // namespace tessera::moe

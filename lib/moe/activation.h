// SwiGLU times the slot weight, on the CPU or a GPU. Without autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::moe {

// Sets `activation` to silu(gate) * up * weight of the slot. gate, up, activation [slots, I] of one type, weight
// [slots] wide; all contiguous. Computes in the wide type and rounds once.
void activate(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& activation);

// The results of activate_back: contiguous tensors, which it overwrites.
struct ActivationGradient {
  at::Tensor d_gate, d_up, activation;  // [slots, I] of one type: that of `gate`, or (on the CPU) wide
  at::Tensor d_weight;                  // [slots], wide
};

// Writes the gradients of gate, up and weight, and the activation again, into `result`. d [slots, I] is the gradient of
// the activation, of the same type as result's [slots, I] tensors; result.activation may share its memory.
void activate_back(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& d,
                   const ActivationGradient& result);

}  // namespace tessera::moe

// SwiGLU times the slot weight on a GPU, by kernels of our own (moe/cuda/weighted_swiglu.h).
#pragma once

#include "moe/activation.h"

namespace tessera::moe::gpu {

// As moe::activate, in float32 or bfloat16.
void activate(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& activation);

// As moe::activate_back; all [slots, I] are of one type.
void activate_back(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& d,
                   const ActivationGradient& result);

}  // namespace tessera::moe::gpu

// SwiGLU: silu(gate) * up (Shazeer 2020, https://arxiv.org/abs/2002.05202).
#pragma once

#include <ATen/core/Tensor.h>

namespace tessera::ops {

// Returns silu(gate) * up for tensors of equal shape and type; differentiable. Computed in the wide type.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

}  // namespace tessera::ops

// Root mean square norm on a GPU, by LibTorch's fused kernels. Without autograd; see rms_norm.h for the maths.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/weight.h"

namespace tessera::ops::gpu {

struct Normed {
  at::Tensor sum, normed, inverse;  // sum is undefined without `second`; inverse is for norm_gradient
};

// Normalises first + second, or `first` if second is undefined.
[[nodiscard]] Normed norm(const at::Tensor& first, const at::Tensor& second, const at::Tensor& gain, double epsilon);

// Returns the gradient of `x`, the rows that were normalised, plus d_sum unless it is undefined; adds the gain's
// gradient into its buffer.
[[nodiscard]] at::Tensor norm_gradient(const at::Tensor& x, const at::Tensor& inverse, const at::Tensor& d,
                                       const at::Tensor& d_sum, const device::Weight& gain);

}  // namespace tessera::ops::gpu

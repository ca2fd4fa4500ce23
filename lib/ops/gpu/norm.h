// Root mean square norm on a GPU, by LibTorch's fused kernels. Without autograd; see rms_norm.h for the maths.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/weight.h"

namespace tessera::ops::gpu {

struct Normed {
  at::Tensor sum, normed, inverse;  // sum undefined without `second`; inverse as norm_gradient wants it
};

// second may be undefined: then the norm is of `first`.
[[nodiscard]] Normed norm(const at::Tensor& first, const at::Tensor& second, const at::Tensor& gain, double epsilon);

// The gradient of the normed rows `x`, plus d_sum unless it is undefined; adds into the gain's gradient.
[[nodiscard]] at::Tensor norm_gradient(const at::Tensor& x, const at::Tensor& inverse, const at::Tensor& d,
                                       const at::Tensor& d_sum, const device::Weight& gain);

}  // namespace tessera::ops::gpu

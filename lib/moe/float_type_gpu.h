// Converts LibTorch's types to the FloatType of our kernels.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/error.h"
#include "moe/cuda/lanes.h"

namespace tessera::moe::gpu {

[[nodiscard]] inline cuda::FloatType float_type(c10::ScalarType type) {
  base::expect(type == c10::ScalarType::Float || type == c10::ScalarType::BFloat16,
               "{} is not computed on a GPU: float32 or bfloat16", c10::toString(type));
  return type == c10::ScalarType::Float ? cuda::FloatType::float32 : cuda::FloatType::bfloat16;
}

}  // namespace tessera::moe::gpu

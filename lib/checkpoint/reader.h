// Parts of stored parameters as tensors. Only the bytes of the part are read, so a rank never holds more than its
// shard.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/tensor_fwd.h"
#include "checkpoint/huggingface.h"
#include "layout/block.h"

namespace tessera::checkpoint {

// Writes `box` of the parameter into `into`: contiguous, on the CPU, of the box's shape, and float32, float64,
// bfloat16 or float16. Wider stored types are rounded to nearest even, once. An empty box reads nothing. Returns the
// elements read: all of the box, since the pieces cover it. Precondition: `box` lies within the parameter.
std::int64_t read_box(const StoredParameter& parameter, const layout::Box& box, const at::Tensor& into);

// `box` of the parameter as a new tensor of `type` (one of those).
[[nodiscard]] at::Tensor read_box(const StoredParameter& parameter, const layout::Box& box, c10::ScalarType type);

// The whole parameter.
[[nodiscard]] at::Tensor read_parameter(const StoredParameter& parameter, c10::ScalarType type);

}  // namespace tessera::checkpoint

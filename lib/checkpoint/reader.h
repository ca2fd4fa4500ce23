// Reads parts of stored parameters into tensors. It reads only the bytes of the part, so a rank never holds more than
// its shard.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/tensor_fwd.h"
#include "checkpoint/huggingface.h"
#include "layout/block.h"

namespace tessera::checkpoint {

// Reads `box` of the parameter into `into`, a contiguous tensor of the box's shape and of type float32, float64,
// bfloat16 or float16, on any device. Rounds wider stored types once, to nearest even. Returns the number of elements
// read, which is that of the box. Preconditions: `box` lies within the parameter, whose pieces cover it.
std::int64_t read_box(const StoredParameter& parameter, const layout::Box& box, const at::Tensor& into);

// Reads `box` into a new CPU tensor of `type`, one of the same four.
[[nodiscard]] at::Tensor read_box(const StoredParameter& parameter, const layout::Box& box, c10::ScalarType type);

// Reads the whole parameter into a new CPU tensor.
[[nodiscard]] at::Tensor read_parameter(const StoredParameter& parameter, c10::ScalarType type);

}  // namespace tessera::checkpoint

// Rows of an embedding Weight.
#pragma once

#include <ATen/core/Tensor.h>

#include "device/weight.h"

namespace tessera::ops {

// Returns the rows `ids` of the weight: ids [n] int64 (each within the weight's rows), weight [rows, hidden] -> [n,
// hidden]. Backward adds each row's gradient into Weight::gradient() in the order of `ids`. Keeps only the ids.
[[nodiscard]] at::Tensor lookup(const at::Tensor& ids, device::Weight& weight);

}  // namespace tessera::ops

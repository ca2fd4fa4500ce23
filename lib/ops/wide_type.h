// The wide type of a compute type: sums, statistics and losses are formed in it.
#pragma once

#include <c10/core/ScalarType.h>

namespace tessera::ops {

// float64 for float64, float32 for everything narrower.
[[nodiscard]] inline c10::ScalarType wide_type(c10::ScalarType compute) {
  return compute == c10::ScalarType::Double ? c10::ScalarType::Double : c10::ScalarType::Float;
}

}  // namespace tessera::ops

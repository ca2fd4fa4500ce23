// The C++ types that stand for an ElementType and for its totals, and the maximum of two values. For code on the CPU
// and on a GPU, with the same bits on both.
#pragma once

#include <cstdint>

#include "comm/communicator.h"
#include "device/kernel_values.h"

namespace tessera::comm {

// Returns the larger of `a` and `b`, or NaN if either is NaN.
template <class T>
TESSERA_HOST_AND_GPU T larger(T a, T b) {
  return a > b || a != a ? a : b;
}

// Calls `body` with one value of the C++ type that stands for `type` and one of that for total_type(type). Does not
// call it if `type` is not an enumerator. Host only.
template <class Body>
void with_types(ElementType type, Body&& body) {
  using device::Bfloat16;
  switch (type) {
    case ElementType::float32: return body(float(), float());
    case ElementType::bfloat16: return body(Bfloat16(), float());
    case ElementType::float64: return body(double(), double());
    case ElementType::int32: return body(std::int32_t(), std::int32_t());
    case ElementType::int64: return body(std::int64_t(), std::int64_t());
  }
}

}  // namespace tessera::comm

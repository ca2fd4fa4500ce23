// Calls a templated body with the C++ type of a floating tensor and its wide type.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/BFloat16.h>

#include <string>

#include "base/error.h"

namespace tessera::ops {

template <class T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
template <class T>
using wide_of = typename WideOf<T>::type;

// Returns body.template operator()<T>(), where T is the C++ type of `type`: float, double or c10::BFloat16.
template <class Body>
decltype(auto) with_float_type(c10::ScalarType type, const Body& body) {
  base::expect(type == c10::ScalarType::Float || type == c10::ScalarType::Double || type == c10::ScalarType::BFloat16,
               "{} is not a compute type: float32, float64 or bfloat16", c10::toString(type));
  if (type == c10::ScalarType::Double) return body.template operator()<double>();
  if (type == c10::ScalarType::BFloat16) return body.template operator()<c10::BFloat16>();
  return body.template operator()<float>();
}

// Returns body.template operator()<T>(), where T is the C++ type of `type`: float or double.
template <class Body>
decltype(auto) with_wide_type(c10::ScalarType type, const Body& body) {
  base::expect(type == c10::ScalarType::Float || type == c10::ScalarType::Double,
               "{} is not a wide type: float32 or float64", c10::toString(type));
  if (type == c10::ScalarType::Double) return body.template operator()<double>();
  return body.template operator()<float>();
}

}  // namespace tessera::ops

#include "comm/element_type.h"

#include "base/error.h"

namespace tessera::comm {

ElementType element_type(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float: return ElementType::float32;
    case c10::ScalarType::Double: return ElementType::float64;
    case c10::ScalarType::BFloat16: return ElementType::bfloat16;
    case c10::ScalarType::Int: return ElementType::int32;
    case c10::ScalarType::Long: return ElementType::int64;
    default: break;
  }
  base::expect(false, "collectives of elements of type {}", c10::toString(type));
  return {};
}

}  // namespace tessera::comm

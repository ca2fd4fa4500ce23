// Converts LibTorch's element types to those of collectives.
#pragma once

#include <c10/core/ScalarType.h>

#include "comm/communicator.h"

namespace tessera::comm {

// Throws std::logic_error if collectives do not support `type`.
[[nodiscard]] ElementType element_type(c10::ScalarType type);

}  // namespace tessera::comm

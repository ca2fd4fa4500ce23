// Converts LibTorch's element types to those of collectives.
#pragma once

#include <c10/core/ScalarType.h>

#include "comm/communicator.h"

namespace tessera::fsdp {

// Throws std::logic_error if collectives do not support `type`.
[[nodiscard]] comm::ElementType element_type(c10::ScalarType type);

}  // namespace tessera::fsdp

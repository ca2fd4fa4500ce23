// The names that collectives have for LibTorch's element types.
#pragma once

#include <c10/core/ScalarType.h>

#include "comm/communicator.h"

namespace tessera::fsdp {

// Throws std::logic_error for a type that collectives do not carry.
[[nodiscard]] comm::ElementType element_type(c10::ScalarType type);

}  // namespace tessera::fsdp

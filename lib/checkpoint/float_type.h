// The floating types that weights are stored in, by the names of the format, of torch and of config.json.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

#include "checkpoint/safetensors.h"

namespace tessera::checkpoint {

// Precondition of this and of torch_name: F64, F32, F16 or BF16.
[[nodiscard]] c10::ScalarType scalar_type(ElementType type);
// The inverse. Throws std::logic_error for a type that is none of them.
[[nodiscard]] ElementType stored_type(c10::ScalarType type);
// "bfloat16".
[[nodiscard]] std::string_view torch_name(ElementType type);

// The inverse of torch_name; nothing for any other word.
[[nodiscard]] std::optional<ElementType> float_type_called(std::string_view torch_name);

}  // namespace tessera::checkpoint

// The floating types of stored weights, under the names of safetensors, of torch and of config.json.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

#include "checkpoint/safetensors.h"

namespace tessera::checkpoint {

// Returns torch's type. Precondition: `type` is F64, F32, F16 or BF16.
[[nodiscard]] c10::ScalarType scalar_type(ElementType type);
// The inverse of scalar_type. Throws std::logic_error for any other type.
[[nodiscard]] ElementType stored_type(c10::ScalarType type);
// Returns torch's name, such as "bfloat16". Precondition as for scalar_type.
[[nodiscard]] std::string_view torch_name(ElementType type);

// The inverse of torch_name; returns nothing for any other word.
[[nodiscard]] std::optional<ElementType> float_type_called(std::string_view torch_name);

}  // namespace tessera::checkpoint

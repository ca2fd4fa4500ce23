// The built-in tokenizer for text: the id of a byte is its value (0 to 255), and one more id ends a document.
#pragma once

#include <cstdint>

namespace tessera::data {

inline constexpr std::int64_t end_of_document = 256;
inline constexpr std::int64_t byte_vocabulary = 257;

}  // namespace tessera::data

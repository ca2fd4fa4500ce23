// JSON files that end with a hash of their content, by which a reader finds any flipped bit.
//
// The last member of the object is "hash": the XXH3-128, 32 hexadecimal digits, of every byte of the file before it:
//   {
//     "step": 100,
//     "hash": "0123456789abcdef0123456789abcdef"
//   }
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace tessera::checkpoint {

// Returns the text of a sealed object. `members` is the text of its other members, one or more, without braces and
// without a comma at the end.
[[nodiscard]] std::string seal(std::string_view members);

// Checks the seal of a file and returns its whole text. Throws Error(bad_input) naming the file if it is longer than
// `limit` bytes, has no seal, or was changed.
[[nodiscard]] std::string read_sealed(const base::Path& path, std::uint64_t limit);

}  // namespace tessera::checkpoint

// JSON files that carry a hash of themselves, so that any flipped bit in them is found.
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

// `members`: the text of an object's members, one or more, without braces and without a comma at the end.
[[nodiscard]] std::string seal(std::string_view members);

// The whole text of the file, after its seal has been checked. Error(bad_input) naming the file if it is longer than
// `limit`, has no seal, or was changed.
[[nodiscard]] std::string read_sealed(const base::Path& path, std::uint64_t limit);

}  // namespace tessera::checkpoint

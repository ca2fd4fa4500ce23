// A hash that tells files apart without reading all of a large one.
#pragma once

#include <cstdint>

#include "base/file.h"

namespace tessera::base {

// Hashes a file's size and content. Of a file longer than `most_bytes` it reads only about that many bytes, in blocks
// of 4 KiB spread evenly from the first byte to the last. Throws Error(bad_input) if the file cannot be read.
[[nodiscard]] std::uint64_t sampled_hash(const Path& path, std::uint64_t most_bytes);

}  // namespace tessera::base

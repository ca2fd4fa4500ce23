// What tells a file from another one without reading all of a large one.
#pragma once

#include <cstdint>

#include "base/file.h"

namespace tessera::base {

// The hash of a file's size and content; of a file longer than `most_bytes`, of about so many of its bytes, in blocks
// that are evenly spread from its first to its last. Error(bad_input) if it cannot be read.
[[nodiscard]] std::uint64_t sampled_hash(const Path& path, std::uint64_t most_bytes);

}  // namespace tessera::base

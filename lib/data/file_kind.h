// Recognises binary files by their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera::data {

struct BinaryKind {
  std::string_view name;     // "gzip data"
  std::string_view way_out;  // "unpack it (gunzip)"
};

// The number of first bytes that callers read and pass on.
inline constexpr std::size_t first_bytes = 4096;

// Returns the kind of a file of `file_size` bytes that begins with `start`, or null if it is none of the known binary
// formats and may be text. The result lives as long as the process.
[[nodiscard]] const BinaryKind* known_binary(std::string_view start, std::uint64_t file_size);

// Like known_binary, but also recognises an unknown format by a zero byte in `start`, which no text has.
[[nodiscard]] const BinaryKind* any_binary(std::string_view start, std::uint64_t file_size);

}  // namespace tessera::data

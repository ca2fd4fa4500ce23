// What a file is by its first bytes, where these are no text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera::data {

struct BinaryKind {
  std::string_view name;     // "gzip data"
  std::string_view way_out;  // "unpack it (gunzip)"
};

// As many bytes are looked at.
inline constexpr std::size_t first_bytes = 4096;

// The kind of a file of `file_size` bytes that begins with `start`, or null: it may be text. Lives for ever.
[[nodiscard]] const BinaryKind* known_binary(std::string_view start, std::uint64_t file_size);

// The same, also of a file with zero bytes, which no text has.
[[nodiscard]] const BinaryKind* any_binary(std::string_view start, std::uint64_t file_size);

}  // namespace tessera::data

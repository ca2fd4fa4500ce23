// Bytes of memory that an operation reads or writes.
#pragma once

#include <cstddef>
#include <string>

namespace tessera::test {

// `rows` runs of `row_bytes` each, their starts `stride_bytes` apart (not less than row_bytes). Empty if either count
// is 0.
struct ByteRange {
  const std::byte* begin = nullptr;
  std::size_t row_bytes = 0, rows = 1, stride_bytes = 0;

  [[nodiscard]] bool empty() const { return row_bytes == 0 || rows == 0; }
  // Behind the last byte; not of an empty range.
  [[nodiscard]] const std::byte* end() const { return begin + (rows - 1) * stride_bytes + row_bytes; }
  [[nodiscard]] std::size_t bytes() const { return row_bytes * rows; }
  bool operator==(const ByteRange&) const = default;
};

[[nodiscard]] ByteRange bytes_of(const void* data, std::size_t bytes);
[[nodiscard]] ByteRange rows_of(const void* data, std::size_t row_bytes, std::size_t rows, std::size_t stride_bytes);

// Whether they have a byte in common.
[[nodiscard]] bool overlap(const ByteRange& a, const ByteRange& b);
// Whether every byte of `inner` is one of `outer`; may say false where rows only together cover it.
[[nodiscard]] bool covers(const ByteRange& outer, const ByteRange& inner);

}  // namespace tessera::test

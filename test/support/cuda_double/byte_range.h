// The bytes of memory that an operation reads or writes.
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
  // One past the last byte. The range must not be empty.
  [[nodiscard]] const std::byte* end() const { return begin + (rows - 1) * stride_bytes + row_bytes; }
  [[nodiscard]] std::size_t bytes() const { return row_bytes * rows; }
  bool operator==(const ByteRange&) const = default;
};

[[nodiscard]] ByteRange bytes_of(const void* data, std::size_t bytes);
[[nodiscard]] ByteRange rows_of(const void* data, std::size_t row_bytes, std::size_t rows, std::size_t stride_bytes);

// Returns whether the ranges have a byte in common.
[[nodiscard]] bool overlap(const ByteRange& a, const ByteRange& b);
// Returns whether every byte of `inner` lies in `outer`; may return false if only several rows together cover a row.
[[nodiscard]] bool covers(const ByteRange& outer, const ByteRange& inner);

}  // namespace tessera::test

#include "support/cuda_double/byte_range.h"

#include <algorithm>
#include <cstdint>

namespace tessera::test {

namespace {

std::intptr_t address(const std::byte* at) { return reinterpret_cast<std::intptr_t>(at); }

// Returns whether a row of `range` has a byte in [begin, end).
bool meets(const ByteRange& range, std::intptr_t begin, std::intptr_t end) {
  const auto first = address(range.begin), length = static_cast<std::intptr_t>(range.row_bytes);
  const auto rows = static_cast<std::intptr_t>(range.rows), stride = static_cast<std::intptr_t>(range.stride_bytes);
  if (end <= first || address(range.end()) <= begin) return false;
  if (rows == 1) return true;
  // Looks at the row that begins last before `end`; all earlier rows end before it does.
  const auto row = std::min(rows - 1, (end - 1 - first) / stride);
  return first + row * stride + length > begin;
}

ByteRange normal(ByteRange range) {
  if (range.rows > 1 && range.stride_bytes == range.row_bytes)
    range = {range.begin, range.row_bytes * range.rows, 1, 0};
  if (range.rows == 1) range.stride_bytes = 0;
  return range;
}

}  // namespace

ByteRange bytes_of(const void* data, std::size_t bytes) { return {static_cast<const std::byte*>(data), bytes, 1, 0}; }

ByteRange rows_of(const void* data, std::size_t row_bytes, std::size_t rows, std::size_t stride_bytes) {
  return normal({static_cast<const std::byte*>(data), row_bytes, rows, stride_bytes});
}

bool overlap(const ByteRange& a, const ByteRange& b) {
  if (a.empty() || b.empty()) return false;
  if (a.rows > b.rows) return overlap(b, a);
  for (std::size_t row = 0; row < a.rows; ++row) {
    const auto begin = address(a.begin + row * a.stride_bytes);
    if (meets(b, begin, begin + static_cast<std::intptr_t>(a.row_bytes))) return true;
  }
  return false;
}

bool covers(const ByteRange& outer, const ByteRange& inner) {
  if (inner.empty() || outer == inner) return true;
  return !outer.empty() && outer.rows == 1 && outer.begin <= inner.begin && inner.end() <= outer.end();
}

}  // namespace tessera::test

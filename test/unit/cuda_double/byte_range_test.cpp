// If this failed, accesses to different columns of a matrix would be reported as conflicts, or real conflicts between
// them missed.
#include "support/cuda_double/byte_range.h"

#include <array>
#include <vector>

#include "support/catch.h"

namespace tessera::test {
namespace {

TEST_CASE("ranges of rows overlap where they have a byte in common") {
  std::array<std::byte, 64> memory{};
  const auto rows = [&](std::size_t from, std::size_t row, std::size_t count, std::size_t stride) {
    return rows_of(memory.data() + from, row, count, stride);
  };
  // Against each byte by itself, exhaustively.
  const auto holds = [&](const ByteRange& range, std::size_t byte) {
    for (std::size_t row = 0; row < range.rows; ++row) {
      const auto* begin = range.begin + row * range.stride_bytes;
      if (memory.data() + byte >= begin && memory.data() + byte < begin + range.row_bytes) return true;
    }
    return false;
  };
  std::vector<ByteRange> ranges;
  for (const std::size_t from : {0, 1, 5, 13})
    for (const std::size_t row : {1, 3, 4})
      for (const std::size_t count : {1, 2, 5})
        for (const std::size_t stride : {4, 5, 7}) ranges.push_back(rows(from, row, count, stride));
  int wrong = 0;
  for (const auto& a : ranges)
    for (const auto& b : ranges) {
      bool common = false, inside = true;
      for (std::size_t byte = 0; byte < memory.size(); ++byte) {
        common |= holds(a, byte) && holds(b, byte);
        inside &= !holds(b, byte) || holds(a, byte);
      }
      wrong += overlap(a, b) != common;
      wrong += covers(a, b) && !inside;
    }
  CHECK(wrong == 0);
  CHECK_FALSE(overlap(rows(0, 0, 3, 4), rows(0, 3, 3, 4)));
  CHECK_FALSE(overlap(rows(0, 3, 0, 4), rows(0, 3, 3, 4)));
}

}  // namespace
}  // namespace tessera::test

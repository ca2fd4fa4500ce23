// If this failed, ranks would call different NCCL operations for one collective, or move other elements than they were
// asked to.
#include "comm/nccl/pieces.h"

#include <array>
#include <vector>

#include "support/catch.h"

namespace tessera::comm {
namespace {

constexpr auto type = ElementType::bfloat16;

// Columns [begin, end) of a matrix of 3 rows of `width` elements.
Strided columns(std::array<std::uint16_t, 60>& matrix, std::int64_t width, std::int64_t begin, std::int64_t end) {
  return {matrix.data() + begin, 3, end - begin, width};
}

TEST_CASE("a piece's runs are its rows, or one where there is nothing between them") {
  std::array<std::uint16_t, 60> matrix{};
  auto* const data = reinterpret_cast<std::byte*>(matrix.data());
  const auto cut = runs_of(columns(matrix, 20, 4, 9), type);
  REQUIRE(cut.size() == 3);
  for (std::size_t row = 0; row < 3; ++row) {
    CHECK(cut[row].data == data + (row * 20 + 4) * 2);
    CHECK(cut[row].elements == 5);
  }
  const auto whole = runs_of(columns(matrix, 20, 0, 20), type);
  REQUIRE(whole.size() == 1);
  CHECK(whole[0].elements == 60);
  CHECK(runs_of({data, 1, 7, 0}, type).size() == 1);
  CHECK(runs_of({data, 0, 7, 7}, type).empty());
  CHECK(runs_of({data, 7, 0, 7}, type).empty());
  CHECK_THROWS_AS(runs_of({data, 2, 7, 6}, type), std::logic_error);
}

TEST_CASE("pieces lie side by side if they have one shape, and each begins where the one before it ends") {
  std::array<std::uint16_t, 60> matrix{};
  const auto three = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return std::vector<Strided>{columns(matrix, 20, a, b), columns(matrix, 20, b, c), columns(matrix, 20, c, d)};
  };
  CHECK(lie_side_by_side(three(0, 5, 10, 15), type));
  CHECK(lie_side_by_side(three(2, 8, 14, 20), type));
  CHECK_FALSE(lie_side_by_side(three(0, 5, 10, 14), type));   // a short one
  CHECK_FALSE(lie_side_by_side(three(0, 10, 20, 20), type));  // an empty one
  CHECK_FALSE(lie_side_by_side(three(5, 5, 5, 5), type));     // nothing at all
  auto swapped = three(0, 5, 10, 15);
  std::swap(swapped[0], swapped[1]);
  CHECK_FALSE(lie_side_by_side(swapped, type));
  auto apart = three(0, 5, 10, 15);
  apart[2] = columns(matrix, 20, 11, 16);
  CHECK_FALSE(lie_side_by_side(apart, type));
  // Rows that the next rank's piece would lie within.
  const std::vector<Strided> interleaved{columns(matrix, 5, 0, 5), columns(matrix, 5, 5, 10)};
  CHECK_FALSE(lie_side_by_side(interleaved, type));
  // One row each, however far apart the next would be.
  CHECK(lie_side_by_side(std::vector<Strided>{{matrix.data(), 1, 5, 5}, {matrix.data() + 5, 1, 5, 9}}, type));
}

TEST_CASE("the largest piece decides how much is padded") {
  std::array<std::uint16_t, 60> matrix{};
  CHECK(largest_piece_bytes(std::vector<Strided>{columns(matrix, 20, 0, 7), columns(matrix, 20, 7, 9)}, type) == 42);
  CHECK(aligned(0) == 0);
  CHECK(aligned(1) == 256);
  CHECK(aligned(256) == 256);
  CHECK(aligned(257) == 512);
}

}  // namespace
}  // namespace tessera::comm

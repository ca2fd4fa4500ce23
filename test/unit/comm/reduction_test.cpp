// If this failed, sums would depend on the order of arrival, bfloat16 would be summed as integers, or a NaN would be
// lost.
#include "comm/reduction.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "comm/piece_sum.h"
#include "support/catch.h"

namespace tessera::comm {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::uint16_t rounded(float value) {
  std::uint16_t bits = 0;
  store_total(&bits, &value, 1, ElementType::bfloat16);
  return bits;
}

TEST_CASE("bfloat16 is rounded to the nearest, ties to even") {
  CHECK(rounded(3.75F) == 0x4070);
  CHECK(rounded(1.0F + 1.0F / 256) == 0x3F80);                        // tie, down to even
  CHECK(rounded(1.0F + 3.0F / 256) == 0x3F82);                        // tie, up to even
  CHECK(rounded(std::nextafter(1.0F + 1.0F / 256, 2.0F)) == 0x3F81);  // just above the tie
  CHECK(rounded(-2.5F) == 0xC020);
  CHECK(rounded(std::numeric_limits<float>::max()) == 0x7F80);  // beyond the largest bfloat16
  CHECK(rounded(std::numeric_limits<float>::infinity()) == 0x7F80);
  CHECK((rounded(nan) & 0x7FFF) > 0x7F80);
  CHECK((rounded(std::bit_cast<float>(0x7F800001U)) & 0x7FFF) > 0x7F80);  // its only set bit is cut off
}

TEST_CASE("the larger of two values is a NaN if either is") {
  for (const auto& [a, b] : {std::pair{nan, 1.0F}, {1.0F, nan}, {nan, nan}}) {
    float total = a;
    combine(&total, &b, 1, ElementType::float32, ReduceOperation::max);
    CHECK(std::isnan(total));
  }
  std::int64_t total = -5;
  const std::int64_t other = std::int64_t{1} << 40;
  combine(&total, &other, 1, ElementType::int64, ReduceOperation::max);
  CHECK(total == other);
}

TEST_CASE("what is combined elsewhere, or added to a sum, has the bits of what is combined in place") {
  // 2^24 + 1 is no float32; 2^24 + (1 + 1) is.
  const std::array<float, 3> total{16777216.0F, -3, nan}, values{1, 5, 2};
  for (const auto operation : {ReduceOperation::add, ReduceOperation::max}) {
    auto in_place = total, into = std::array<float, 3>{}, sum = std::array<float, 3>{2, 100, 7}, expected = sum;
    combine(in_place.data(), values.data(), 3, ElementType::float32, operation);
    combine_into(into.data(), total.data(), values.data(), 3, ElementType::float32, operation);
    add_combined(sum.data(), total.data(), values.data(), 3, ElementType::float32, operation);
    add_total(expected.data(), in_place.data(), 3, ElementType::float32);
    CHECK(std::bit_cast<std::array<std::uint32_t, 3>>(into) == std::bit_cast<std::array<std::uint32_t, 3>>(in_place));
    CHECK(std::bit_cast<std::array<std::uint32_t, 3>>(sum) == std::bit_cast<std::array<std::uint32_t, 3>>(expected));
  }
  const float start = 3;
  const std::uint16_t value = 0x3FC0;  // 1.5
  float sum = 10;
  add_combined(&sum, &start, &value, 1, ElementType::bfloat16, ReduceOperation::add);
  CHECK(sum == 14.5F);
}

TEST_CASE("contributions of any number of ranks are combined in their order, wherever this rank stands among them") {
  constexpr std::int64_t elements = 5;
  for (std::int64_t ranks = 1; ranks <= 5; ++ranks)
    for (std::int64_t rank = 0; rank < ranks; ++rank)
      for (const auto goes : {TotalGoes::added, TotalGoes::stored}) {
        INFO("rank " << rank << " of " << ranks);
        std::vector<std::vector<float>> values(static_cast<std::size_t>(ranks), std::vector<float>(elements));
        std::vector<float> target(elements, 0.125F), expected(elements);
        for (std::size_t e = 0; e < elements; ++e) {
          for (std::size_t k = 0; k < values.size(); ++k) {
            values[k][e] = std::sin(static_cast<float>(10 * k + e)) * 1e3F / static_cast<float>(k + 3);
            expected[e] = k == 0 ? values[0][e] : expected[e] + values[k][e];
          }
          if (goes == TotalGoes::added) expected[e] = target[e] + expected[e];
        }
        std::vector<const std::byte*> contributions;
        for (const auto& v : values) contributions.push_back(reinterpret_cast<const std::byte*>(v.data()));
        contributions[static_cast<std::size_t>(rank)] = nullptr;
        auto& own = values[static_cast<std::size_t>(rank)];
        PieceSum sum({{.type = ElementType::float32,
                       .own = {own.data(), 1, elements, elements},
                       .target = {target.data(), 1, elements, elements},
                       .total_goes = goes}},
                     rank, ranks);
        sum.add(0, sum.bytes(), contributions);
        CHECK(target == expected);
      }
}

TEST_CASE("contributions are added in rank order, and then to what is there") {
  // 2^24 + 1 is no float32: only ((2^24 + 1) + 1) loses both ones; any other order gives 2^24 + 2.
  std::array<float, 1> own{1}, sum{0};
  const std::array<float, 1> first{16777216.0F}, last{1};
  PieceSum pieces({{.type = ElementType::float32, .own = {own.data(), 1, 1, 1}, .target = {sum.data(), 1, 1, 1}}}, 1,
                  3);
  const std::array<const std::byte*, 3> contributions{reinterpret_cast<const std::byte*>(first.data()), nullptr,
                                                      reinterpret_cast<const std::byte*>(last.data())};
  pieces.add(0, 4, contributions);
  CHECK(sum[0] == 16777216.0F);
}

TEST_CASE("pieces longer than a block, of several types, are summed in any stretches") {
  constexpr std::int64_t rows = 3, columns = 30011, stride = 30029;
  std::vector<double> own(rows * stride, 1), sum(rows * stride, 100);
  std::vector<std::uint16_t> own16(7, 0x3FC0), sum16(7);  // 1.5
  PieceSum pieces({{.type = ElementType::float64,
                    .own = {own.data(), rows, columns, stride},
                    .target = {sum.data(), rows, columns, stride}},
                   {.type = ElementType::bfloat16,
                    .own = {own16.data(), 1, 7, 7},
                    .target = {sum16.data(), 1, 7, 7},
                    .total_goes = TotalGoes::stored}},
                  0, 2);
  std::vector<std::byte> other(static_cast<std::size_t>(pieces.bytes()));
  REQUIRE(pieces.bytes() == rows * columns * 8 + 14);
  auto* other64 = reinterpret_cast<double*>(other.data());
  std::iota(other64, other64 + rows * columns, 0.0);
  auto* other16 = reinterpret_cast<std::uint16_t*>(other64 + rows * columns);
  std::fill(other16, other16 + 7, std::uint16_t{0x4010});  // 2.25
  constexpr std::int64_t stretch = 200'008;
  for (std::int64_t at = 0; at < pieces.bytes(); at += stretch) {
    const std::array<const std::byte*, 2> contributions{nullptr, other.data() + at};
    pieces.add(at, std::min(at + stretch, pieces.bytes()), contributions);
  }
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < stride; ++column) {
      const double expected = column < columns ? 101.0 + static_cast<double>(row * columns + column) : 100.0;
      if (sum[static_cast<std::size_t>(row * stride + column)] != expected) FAIL("row " << row << ", " << column);
    }
  CHECK(sum16 == std::vector<std::uint16_t>(7, 0x4070));  // 3.75
}

}  // namespace
}  // namespace tessera::comm

// If this failed, a group of one rank would lose a reduction, or count it twice.
#include <array>
#include <numeric>

#include "comm/communicator.h"
#include "support/catch.h"

namespace tessera::comm {
namespace {

// Five columns of a matrix of seven, from column 1; and five of one of eleven, from column 3.
Strided from(void* data, std::int64_t rows) { return {data, rows, 5, 7}; }
Strided to(void* data, std::int64_t rows) { return {data, rows, 5, 11}; }

template <class From, class To>
void check_reduce(ElementType type, ElementType sum_type) {
  std::array<From, 3 * 7> pieces{};
  std::iota(pieces.begin(), pieces.end(), From(1));
  std::array<To, 3 * 11> sum{};
  sum.fill(To(100));
  solo_communicator()->reduce_blocks({{type, {from(&pieces[1], 3)}, sum_type, to(&sum[3], 3)}}, nullptr)->wait();
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t column = 0; column < 11; ++column) {
      const bool within = column >= 3 && column < 8;
      const To added = within ? static_cast<To>(pieces[row * 7 + 1 + column - 3]) : To(0);
      CHECK(sum[row * 11 + column] == To(100) + added);
    }
}

TEST_CASE("a reduction adds its strided piece to what is there, and touches nothing beside it") {
  check_reduce<float, float>(ElementType::float32, ElementType::float32);
  check_reduce<double, double>(ElementType::float64, ElementType::float64);
  check_reduce<std::int32_t, std::int32_t>(ElementType::int32, ElementType::int32);
  check_reduce<std::int64_t, std::int64_t>(ElementType::int64, ElementType::int64);
}

TEST_CASE("bfloat16 pieces are added as numbers, in float32") {
  std::array<std::uint16_t, 2> pieces{0x3FC0, 0x4010};  // 1.5, 2.25
  std::array<float, 2> sum{2.25F, 1.0F};
  const Strided source{pieces.data(), 1, 2, 2}, target{sum.data(), 1, 2, 2};
  solo_communicator()
      ->reduce_blocks({{ElementType::bfloat16, {source}, ElementType::float32, target}}, nullptr)
      ->wait();
  CHECK(sum == std::array<float, 2>{3.75F, 3.25F});
}

TEST_CASE("an empty piece adds nothing") {
  std::array<float, 2> sum{1, 2};
  const Strided none{nullptr, 0, 5, 5}, thin{nullptr, 3, 0, 0};
  for (const auto& empty : {none, thin})
    solo_communicator()->reduce_blocks({{ElementType::float32, {empty}, ElementType::float32, empty}}, nullptr)->wait();
  CHECK(sum == std::array<float, 2>{1, 2});
}

TEST_CASE("sums, broadcasts and gathers leave the only rank's data as they are") {
  std::array<double, 3> data{1, -2, 3};
  const auto solo = solo_communicator();
  solo->all_reduce(data.data(), 3, ElementType::float64, ReduceOperation::add, nullptr)->wait();
  solo->all_reduce(data.data(), 3, ElementType::float64, ReduceOperation::max, nullptr)->wait();
  solo->broadcast(data.data(), 3, ElementType::float64, 0, nullptr)->wait();
  solo->gather_blocks({{ElementType::float64, {{data.data(), 1, 3, 3}}}}, nullptr)->wait();
  CHECK(data == std::array<double, 3>{1, -2, 3});
}

TEST_CASE("rows come back to the only rank") {
  const std::array<float, 6> send{1, 2, 3, 4, 5, 6};
  std::array<float, 6> receive{};
  const std::array<std::int64_t, 1> counts{2};
  solo_communicator()
      ->all_to_all_rows(send.data(), counts, receive.data(), counts, 3, ElementType::float32, nullptr)
      ->wait();
  CHECK(receive == send);
}

TEST_CASE("pieces that do not fit the group or each other are the programmer's fault") {
  std::array<float, 6> data{};
  const Strided two{data.data(), 2, 3, 3}, one{data.data(), 1, 3, 3};
  const auto solo = solo_communicator();
  CHECK_THROWS_WITH(solo->gather_blocks({{ElementType::float32, {one, one}}}, nullptr),
                    Catch::Matchers::ContainsSubstring("2 pieces for 1 ranks"));
  CHECK_THROWS_WITH(solo->reduce_blocks({{ElementType::float32, {two}, ElementType::float32, one}}, nullptr),
                    Catch::Matchers::ContainsSubstring("2 x 3 is added to a sum of 1 x 3"));
  CHECK_THROWS_WITH(solo->reduce_blocks({{ElementType::bfloat16, {two}, ElementType::bfloat16, two}}, nullptr),
                    Catch::Matchers::ContainsSubstring("float32 only"));
}

}  // namespace
}  // namespace tessera::comm

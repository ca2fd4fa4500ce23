// If this failed, sums on the GPU would have other bits than those on the CPU, or be written to the wrong place.
#include "comm/nccl/rank_order_sum.h"

#include <cstring>
#include <random>
#include <vector>

#include "comm/piece_sum.h"
#include "comm/reduction.h"
#include "support/catch.h"

namespace tessera::comm {
namespace {

constexpr std::int64_t rows = 5, columns = 7, own_stride = 11, target_stride = 9, ranks = 3;

std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

// Numbers of every magnitude below 2 (of floating types), so that the order of a sum shows in its bits; no NaN, whose
// bits are the compiler's choice.
std::vector<std::byte> random_bytes(std::size_t bytes, std::size_t element, std::uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<std::byte> all(bytes);
  for (auto& byte : all) byte = static_cast<std::byte>(random() >> 8);
  for (auto last = element - 1; last < bytes; last += element) all[last] &= std::byte{0xbf};
  return all;
}

void run(const RankOrderSum& sum) {
  comm::with_types(sum.type, [&]<class Value, class Total>(Value, Total) {
    for (std::int64_t row = 0; row < sum.rows; ++row)
      for (std::int64_t column = 0; column < sum.row_elements; ++column)
        rank_order::sum_element<Value, Total>(sum, row, column);
  });
}

// The same by comm/piece_sum.h.
void run_on_host(const RankOrderSum& sum) {
  auto* const own = const_cast<void*>(sum.own);
  PieceSum pieces({{.type = sum.type,
                    .own = {own, sum.rows, sum.row_elements, sum.own_stride},
                    .target = {sum.target, sum.rows, sum.row_elements, sum.target_stride},
                    .operation = sum.operation,
                    .total_goes = sum.total_goes}},
                  sum.rank, sum.ranks);
  std::vector<const std::byte*> contributions;
  for (std::int64_t k = 0; k < sum.ranks; ++k)
    contributions.push_back(static_cast<const std::byte*>(sum.received) + k * pieces.bytes());
  pieces.add(0, pieces.bytes(), contributions);
}

TEST_CASE("sums and maxima in the order of the ranks have the bits of those on the host, for every type and rank") {
  for (const auto type :
       {ElementType::float32, ElementType::bfloat16, ElementType::float64, ElementType::int32, ElementType::int64})
    for (const auto operation : {ReduceOperation::add, ReduceOperation::max})
      for (const auto goes : {TotalGoes::added, TotalGoes::stored})
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          const auto element = element_bytes(type);
          const auto own = random_bytes(size_of(rows * own_stride) * element, element, 3);
          const auto received = random_bytes(size_of(ranks * rows * columns) * element, element, 5);
          auto target = random_bytes(size_of(rows * target_stride) * 8, element_bytes(total_type(type)), 7);
          auto expected = target;
          RankOrderSum sum{.type = type,
                           .operation = operation,
                           .total_goes = goes,
                           .rows = rows,
                           .row_elements = columns,
                           .own = own.data(),
                           .own_stride = own_stride,
                           .received = received.data(),
                           .target = target.data(),
                           .target_stride = target_stride,
                           .rank = rank,
                           .ranks = ranks};
          run(sum);
          sum.target = expected.data();
          run_on_host(sum);
          CHECK(std::memcmp(target.data(), expected.data(), target.size()) == 0);
        }
}

TEST_CASE("a total may be stored where this rank's own values were") {
  std::vector<float> own{1, 2, 3};
  const std::vector<float> received{10, 20, 30, 99, 99, 99};
  run({.type = ElementType::float32,
       .total_goes = TotalGoes::stored,
       .rows = 1,
       .row_elements = 3,
       .own = own.data(),
       .own_stride = 3,
       .received = received.data(),
       .target = own.data(),
       .target_stride = 3,
       .rank = 1,
       .ranks = 2});
  CHECK(own == std::vector<float>{11, 22, 33});
}

}  // namespace
}  // namespace tessera::comm

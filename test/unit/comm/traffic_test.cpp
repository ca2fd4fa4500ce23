// If this failed, the reported bytes per group would not be those that a run moves.
#include "comm/traffic.h"

#include <algorithm>
#include <vector>

#include "support/catch.h"

namespace tessera::comm {
namespace {

constexpr auto f32 = ElementType::float32;
constexpr auto bf16 = ElementType::bfloat16;

// A piece of 3 rows of k + 1 elements for each rank k but the last, whose piece is empty.
std::vector<Strided> uneven_pieces(std::int64_t ranks) {
  std::vector<Strided> pieces;
  for (std::int64_t k = 0; k < ranks; ++k)
    pieces.push_back({.data = nullptr, .rows = 3, .row_elements = k + 1 < ranks ? k + 1 : 0, .stride_elements = 17});
  return pieces;
}

TEST_CASE("a gather sends the own piece to each other rank, without the gaps between its rows") {
  const std::vector<GatherBlock> blocks{{f32, uneven_pieces(4)}, {bf16, uneven_pieces(4)}};
  CHECK(gather_bytes_sent(blocks, 0) == 3 * 1 * (4 + 2) * 3);
  CHECK(gather_bytes_sent(blocks, 2) == 3 * 3 * (4 + 2) * 3);
  CHECK(gather_bytes_sent(blocks, 3) == 0);  // the empty piece
  CHECK(gather_bytes_sent({}, 1) == 0);
}

TEST_CASE("a reduction sends each other rank its piece") {
  const std::vector<ReduceBlock> blocks{{bf16, uneven_pieces(4), f32, {}}};
  CHECK(reduce_bytes_sent(blocks, 0) == 3 * (2 + 3) * 2);
  CHECK(reduce_bytes_sent(blocks, 1) == 3 * (1 + 3) * 2);
  CHECK(reduce_bytes_sent(blocks, 3) == 3 * (1 + 2 + 3) * 2);
}

TEST_CASE("a short array is all-reduced whole, a long one in blocks") {
  CHECK(all_reduce_bytes_sent(0, f32, 0, 3) == 0);
  CHECK(all_reduce_bytes_sent(8192, f32, 1, 3) == 8192 * 4 * 2);  // 32 KiB
  // 8193 = 2731 + 2731 + 2731; 8195 = 2732 + 2732 + 2731.
  CHECK(all_reduce_bytes_sent(8193, f32, 1, 3) == (8193 - 2731 + 2731 * 2) * 4);
  CHECK(all_reduce_bytes_sent(8195, f32, 0, 3) == (8195 - 2732 + 2732 * 2) * 4);
  CHECK(all_reduce_bytes_sent(8195, f32, 2, 3) == (8195 - 2731 + 2731 * 2) * 4);
}

TEST_CASE("the blocks of an all-reduce cover the array once, in order, and none is longer than the first") {
  for (std::int64_t ranks = 1; ranks <= 9; ++ranks)
    for (const std::int64_t elements : {0, 1, 5, 8, 9, 101}) {
      std::int64_t end = 0;
      for (std::int64_t k = 0; k < ranks; ++k) {
        const auto block = all_reduce_block(elements, k, ranks);
        CHECK(block.begin == end);
        CHECK((block.end >= block.begin && block.end - block.begin <= all_reduce_block(elements, 0, ranks).end));
        end = block.end;
      }
      CHECK(end == elements);
    }
}

TEST_CASE("rows to the rank itself are not sent, and only the root of a broadcast sends") {
  const std::vector<std::int64_t> counts{5, 0, 7};
  CHECK(rows_bytes_sent(counts, 11, f32, 0) == 7 * 11 * 4);
  CHECK(rows_bytes_sent(counts, 11, bf16, 1) == 12 * 11 * 2);
  CHECK(broadcast_bytes_sent(13, f32, 2, 2, 5) == 13 * 4 * 4);
  CHECK(broadcast_bytes_sent(13, f32, 2, 0, 5) == 0);
}

TEST_CASE("a group of one rank sends nothing") {
  CHECK(gather_bytes_sent(std::vector<GatherBlock>{{f32, {{nullptr, 3, 5, 7}}}}, 0) == 0);
  CHECK(reduce_bytes_sent(std::vector<ReduceBlock>{{f32, {{nullptr, 3, 5, 7}}, f32, {}}}, 0) == 0);
  CHECK(all_reduce_bytes_sent(100, f32, 0, 1) == 0);
  CHECK(all_reduce_bytes_sent(100'003, f32, 0, 1) == 0);
  CHECK(rows_bytes_sent(std::vector<std::int64_t>{9}, 11, f32, 0) == 0);
  CHECK(broadcast_bytes_sent(13, f32, 0, 0, 1) == 0);
}

TEST_CASE("traffic adds up") {
  Traffic sum{1, 20, 0.5, 0.25};
  sum += {2, 300, 1, 0.5};
  CHECK(sum.calls == 3);
  CHECK(sum.bytes_sent == 320);
  CHECK(sum.seconds_under_way == 1.5);
  CHECK(sum.seconds_exposed == 0.75);
}

}  // namespace
}  // namespace tessera::comm

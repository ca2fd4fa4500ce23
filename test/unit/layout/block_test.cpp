// If this failed, ranks would own the wrong elements of a parameter, own some twice, or own none at all.
#include "layout/block.h"

#include "support/catch.h"

#include <stdexcept>
#include <vector>

namespace tessera::layout {
namespace {

std::vector<std::int64_t> block_sizes(std::int64_t size, std::int64_t parts) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < parts; ++i) sizes.push_back(block_of(size, parts, i).size());
  return sizes;
}

using Sizes = std::vector<std::int64_t>;

TEST_CASE("blocks are as long as the rounded-up share, the last ones short or empty") {
  CHECK(block_sizes(3, 2) == Sizes{2, 1});
  CHECK(block_sizes(6, 4) == Sizes{2, 2, 2, 0});
  CHECK(block_sizes(5, 2) == Sizes{3, 2});
  CHECK(block_sizes(5, 4) == Sizes{2, 2, 1, 0});
  CHECK(block_sizes(33, 2) == Sizes{17, 16});
  CHECK(block_sizes(33, 4) == Sizes{9, 9, 9, 6});
  CHECK(block_sizes(2, 4) == Sizes{1, 1, 0, 0});
  CHECK(block_sizes(0, 3) == Sizes{0, 0, 0});
}

TEST_CASE("an empty block stands at the end of its dim") {
  CHECK(block_of(6, 4, 3) == Block{6, 6});
  CHECK(block_of(2, 7, 5) == Block{2, 2});
}

TEST_CASE("blocks of one dim follow each other and cover it, for every size and number of parts") {
  for (std::int64_t size = 0; size <= 40; ++size)
    for (std::int64_t parts = 1; parts <= 17; ++parts) {
      std::int64_t covered = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const Block block = block_of(size, parts, i);
        REQUIRE(block.begin == covered);
        REQUIRE(block.end >= block.begin);
        covered = block.end;
      }
      REQUIRE(covered == size);
    }
}

TEST_CASE("blocks of a dim beyond 32 bits do not overflow") {
  const std::int64_t size = (std::int64_t{1} << 62) + 1;
  CHECK(block_of(size, 3, 2).end == size);
  CHECK(block_of(size, 3, 0).size() == size / 3 + 1);
}

TEST_CASE("a block outside the parts is the programmer's error") {
  CHECK_THROWS_AS(block_of(4, 2, 2), std::logic_error);
  CHECK_THROWS_AS(block_of(4, 0, 0), std::logic_error);
  CHECK_THROWS_AS(block_of(-1, 2, 0), std::logic_error);
}

TEST_CASE("the whole box of a tensor has its shape and number of elements") {
  const Box box = whole_box({3, 5, 7});
  CHECK(box.shape() == Sizes{3, 5, 7});
  CHECK(box.elements() == 105);
  CHECK(whole_box({}).elements() == 1);
}

TEST_CASE("an intersection holds exactly the elements that both boxes hold") {
  const std::int64_t n = 5;
  const auto holds = [](const Box& box, std::int64_t i, std::int64_t j) {
    return i >= box.dims[0].begin && i < box.dims[0].end && j >= box.dims[1].begin && j < box.dims[1].end;
  };
  std::vector<Block> ranges;
  for (std::int64_t begin = 0; begin <= n; ++begin)
    for (std::int64_t end = begin; end <= n; end += 2) ranges.push_back({begin, end});
  for (const Block& a0 : ranges)
    for (const Block& b0 : ranges) {
      const Box a{{a0, {1, 4}}};
      const Box b{{b0, {2, 5}}};
      const Box common = intersect(a, b);
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          const bool both = holds(a, i, j) && holds(b, i, j);
          REQUIRE(holds(common, i, j) == both);
          count += both ? 1 : 0;
        }
      REQUIRE(common.elements() == count);
    }
}

TEST_CASE("boxes of different numbers of dims do not intersect: the programmer's error") {
  CHECK_THROWS_AS(intersect(whole_box({2}), whole_box({2, 3})), std::logic_error);
}

}  // namespace
}  // namespace tessera::layout

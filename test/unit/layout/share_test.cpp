// If this failed, sequences of a global batch would be trained twice or never, or the ranks would run different steps.
#include "layout/share.h"

#include "support/catch.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

namespace tessera::layout {
namespace {

TEST_CASE("ten sequences on three ranks are dealt as four, three, three") {
  std::vector<Block> shares;
  for (std::int64_t rank = 0; rank < 3; ++rank) shares.push_back(sequences_of_rank(10, 4, 3, rank).at(0));
  CHECK(shares == std::vector<Block>{{0, 4}, {4, 7}, {7, 10}});
}

TEST_CASE("a global batch smaller than the ranks leaves ranks without sequences, which still take every micro-step") {
  CHECK(sequences_of_rank(3, 1, 4, 3) == std::vector<Block>{{3, 3}});
  CHECK(sequences_of_rank(5, 1, 4, 0) == std::vector<Block>{{0, 1}, {4, 5}});
  CHECK(sequences_of_rank(5, 1, 4, 2) == std::vector<Block>{{2, 3}, {5, 5}});
}

TEST_CASE("the last micro-step may be short: ten sequences in micro-batches of four on one rank") {
  CHECK(sequences_of_rank(10, 4, 1, 0) == std::vector<Block>{{0, 4}, {4, 8}, {8, 10}});
  CHECK(micro_steps(10, 4, 1) == 3);
}

TEST_CASE("an empty global batch has no micro-steps") {
  CHECK(micro_steps(0, 2, 3) == 0);
  CHECK(sequences_of_rank(0, 2, 3, 1).empty());
}

TEST_CASE("sizes near the largest number do not overflow") {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  CHECK(micro_steps(7, huge, 3) == 1);
  CHECK(sequences_of_rank(7, huge, 3, 0) == std::vector<Block>{{0, 3}});
}

// One global batch: each sequence exactly once, in order over micro-steps and then ranks; sizes as even as they can be.
void check_shares(std::int64_t global, std::int64_t micro, std::int64_t ranks) {
  const std::int64_t steps = micro_steps(global, micro, ranks);
  std::vector<std::vector<Block>> shares;
  for (std::int64_t rank = 0; rank < ranks; ++rank) shares.push_back(sequences_of_rank(global, micro, ranks, rank));
  std::int64_t next = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t expected = std::min(global - next, micro * ranks);
    const std::int64_t first = next;
    std::int64_t before = micro;
    for (const std::vector<Block>& share : shares) {
      REQUIRE(static_cast<std::int64_t>(share.size()) == steps);
      const Block block = share[static_cast<std::size_t>(step)];
      REQUIRE(block.begin == next);
      REQUIRE(block.size() <= before);            // the larger ones first, never more than a micro-batch
      REQUIRE(block.size() >= expected / ranks);  // as even as possible
      REQUIRE(block.size() <= expected / ranks + 1);
      before = block.size();
      next = block.end;
    }
    REQUIRE(next - first == expected);
  }
  REQUIRE(next == global);
}

TEST_CASE("each sequence is processed exactly once, for every small batch, micro-batch and number of ranks") {
  for (std::int64_t global = 1; global <= 30; ++global)
    for (std::int64_t micro = 1; micro <= 5; ++micro)
      for (std::int64_t ranks = 1; ranks <= 7; ++ranks) check_shares(global, micro, ranks);
}

TEST_CASE("the number of micro-steps is the global batch over micro-batch times ranks, rounded up") {
  CHECK(micro_steps(12, 3, 4) == 1);
  CHECK(micro_steps(13, 3, 4) == 2);
  CHECK(micro_steps(1, 3, 4) == 1);
}

TEST_CASE("a rank outside the data ranks is the programmer's error") {
  CHECK_THROWS_AS(sequences_of_rank(4, 1, 2, 2), std::logic_error);
  CHECK_THROWS_AS(micro_steps(4, 0, 2), std::logic_error);
}

}  // namespace
}  // namespace tessera::layout

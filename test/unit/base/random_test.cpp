// If this failed, initial weights or the order of the data would change, repeat, or depend on the order of the draws.
#include "base/random.h"
#include "support/catch.h"

#include <algorithm>
#include <set>
#include <vector>

using namespace tessera::base;

// Expected: Random123 1.14, tests/kat_vectors, lines "philox4x32 10".
TEST_CASE("Philox gives the published vectors") {
  CHECK(Philox::generate({0, 0, 0, 0}, {0, 0}) == Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(Philox::generate({ones, ones, ones, ones}, {ones, ones}) ==
        Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox::generate({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("seed, stream and counter are laid out as key and counter") {
  const Philox philox(0x299f31d0a4093822, 0x0370734413198a2e);
  CHECK(philox(0x85a308d3243f6a88) == Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("streams and seeds are different sequences") {
  std::set<std::uint64_t> seen;
  for (const std::uint64_t seed : {0, 1, 42})
    for (const std::uint64_t stream : {0, 1, 2})
      for (std::uint64_t i = 0; i < 5; ++i) seen.insert(Philox(seed, stream).bits(i));
  CHECK(seen.size() == 3 * 3 * 5);
  CHECK(stream_of("a") != stream_of("b"));
}

TEST_CASE("a permutation hits every number once, for every small size") {
  for (std::uint64_t n = 0; n <= 300; ++n) {
    const Permutation order(n, 42, n % 3);
    std::vector<bool> seen(n, false);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t to = order(i);
      REQUIRE(to < n);
      REQUIRE_FALSE(seen[to]);
      seen[to] = true;
    }
  }
}

// The same values stand in test/scripts/data_order_test.sh: scripts/peers/data_order.py repeats the order in Python.
TEST_CASE("permutations have the values that the comparison with PyTorch relies on") {
  const auto first = [](const Permutation& order, std::uint64_t count) {
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(order(i));
    return values;
  };
  CHECK(stream_of("data order") == 0x9c45eda72d4d1a9e);
  CHECK(first(Permutation(585, 42, 3), 8) == std::vector<std::uint64_t>{351, 196, 70, 67, 359, 161, 429, 444});
  CHECK(first(Permutation(7, 5, (std::uint64_t{1} << 40) + 1), 7) == std::vector<std::uint64_t>{5, 3, 1, 4, 0, 6, 2});
  CHECK(first(Permutation(1000000, 9, 1), 4) == std::vector<std::uint64_t>{263763, 183821, 36201, 668097});
}

TEST_CASE("a permutation that is walked as a whole is the one that is asked element by element") {
  for (const std::uint64_t n : {0U, 1U, 2U, 3U, 63U, 64U, 65U, 585U, 4097U}) {
    const Permutation order(n, 42, 7);
    std::vector<std::uint64_t> walked, asked;
    order.for_each([&](std::uint64_t place) { walked.push_back(place); });
    for (std::uint64_t i = 0; i < n; ++i) asked.push_back(order(i));
    CHECK(walked == asked);
  }
}

TEST_CASE("a permutation of a large range stays in it and does not repeat") {
  for (const std::uint64_t n : {std::uint64_t{1} << 40, (std::uint64_t{1} << 40) + 1, ~std::uint64_t{0}}) {
    const Permutation order(n, 3, 5);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      REQUIRE(order(i) < n);
      seen.insert(order(i));
    }
    CHECK(seen.size() == 1000);
  }
}

TEST_CASE("permutations of neighbouring epochs are unlike each other and the identity") {
  constexpr std::uint64_t n = 1000;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    int same = 0, fixed = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      same += Permutation(n, 42, epoch)(i) == Permutation(n, 42, epoch + 1)(i) ? 1 : 0;
      fixed += Permutation(n, 42, epoch)(i) == i ? 1 : 0;
    }
    CHECK(same < 10);  // expected 1, Poisson
    CHECK(fixed < 10);
  }
}

TEST_CASE("every place is equally likely for an element") {
  constexpr std::uint64_t n = 7;
  constexpr int draws = 7000;
  std::vector<int> counts(n * n, 0);
  for (int seed = 0; seed < draws; ++seed)
    for (std::uint64_t i = 0; i < n; ++i) ++counts[i * n + Permutation(n, static_cast<std::uint64_t>(seed), 0)(i)];
  for (const int count : counts) CHECK(std::abs(count - draws / 7) < 5 * 30);  // 30: standard deviation of the count
}

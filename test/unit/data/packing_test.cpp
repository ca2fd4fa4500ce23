// If this failed, separate documents would lose targets, or two runs would pack them differently.
#include "data/packing.h"

#include <map>
#include <set>

#include "base/random.h"
#include "support/catch.h"

using namespace tessera;
using data::Packing;
using data::Piece;

namespace {

Packing pack(const std::vector<std::int64_t>& lengths, std::int64_t capacity) {
  return Packing(
      static_cast<std::int64_t>(lengths.size()),
      [lengths](std::int64_t d) { return lengths[static_cast<std::size_t>(d)]; },
      [](std::int64_t place) { return place; }, capacity);
}

}  // namespace

TEST_CASE("documents of 5, 4 and 3 tokens have 4 + 3 + 2 targets in one window") {
  const Packing packing = pack({5, 4, 3}, 9);
  REQUIRE(packing.windows() == 1);
  CHECK(packing.pieces(0) == std::vector<Piece>{{0, 0, 4}, {1, 0, 3}, {2, 0, 2}});
}

TEST_CASE("a document that does not fit begins a window, and the earlier window is not filled later") {
  const Packing packing = pack({5, 6, 2}, 7);
  REQUIRE(packing.windows() == 2);
  CHECK(packing.pieces(0) == std::vector<Piece>{{0, 0, 4}});
  CHECK(packing.pieces(1) == std::vector<Piece>{{1, 0, 5}, {2, 0, 1}});
}

TEST_CASE("a long document is cut into whole windows and a rest that shares its window") {
  const Packing packing = pack({3, 12, 3, 2}, 5);
  REQUIRE(packing.windows() == 4);
  CHECK(packing.pieces(0) == std::vector<Piece>{{0, 0, 2}});
  CHECK(packing.pieces(1) == std::vector<Piece>{{1, 0, 5}});
  CHECK(packing.pieces(2) == std::vector<Piece>{{1, 5, 5}});
  CHECK(packing.pieces(3) == std::vector<Piece>{{1, 10, 1}, {2, 0, 2}, {3, 0, 1}});
  CHECK(packing.cut() == 1);
}

TEST_CASE("documents without a target are left out and counted") {
  const Packing packing = pack({1, 0, 3, 1, 1, 4, 1}, 6);
  REQUIRE(packing.windows() == 1);
  CHECK(packing.pieces(0) == std::vector<Piece>{{2, 0, 2}, {5, 0, 3}});
  CHECK(packing.left_out() == 5);
  CHECK(packing.cut() == 0);
  CHECK(pack({1, 1}, 6).windows() == 0);
  CHECK(pack({}, 6).windows() == 0);
}

TEST_CASE("every target of every document appears once, and no window overflows") {
  const base::Philox random(11, 0);
  for (std::int64_t capacity = 1; capacity <= 17; ++capacity) {
    std::vector<std::int64_t> lengths;
    for (std::uint64_t d = 0; d < 101; ++d) lengths.push_back(static_cast<std::int64_t>(random.bits(d) % 43));
    const base::Permutation order(lengths.size(), 1, static_cast<std::uint64_t>(capacity));
    const Packing packing(
        static_cast<std::int64_t>(lengths.size()), [&](std::int64_t d) { return lengths[static_cast<std::size_t>(d)]; },
        [&](std::int64_t place) { return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(place))); },
        capacity);
    std::map<std::int64_t, std::int64_t> reached;  // by document: targets so far
    for (std::int64_t window = 0; window < packing.windows(); ++window) {
      std::int64_t used = 0;
      for (const Piece& piece : packing.pieces(window)) {
        REQUIRE(piece.inputs >= 1);
        REQUIRE(reached[piece.document] == piece.first);  // pieces come in order, without gap or overlap
        reached[piece.document] += piece.inputs;
        used += piece.inputs;
      }
      REQUIRE(used >= 1);
      REQUIRE(used <= capacity);
    }
    for (std::size_t d = 0; d < lengths.size(); ++d)
      REQUIRE(reached[static_cast<std::int64_t>(d)] == std::max<std::int64_t>(0, lengths[d] - 1));
  }
}

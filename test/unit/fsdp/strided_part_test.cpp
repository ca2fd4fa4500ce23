// If this failed, a rank's block would be gathered into, or reduced from, the wrong place of its parameter.
#include <array>
#include <stdexcept>

#include "fsdp/parameter_store.h"
#include "support/catch.h"

namespace tessera::fsdp {
namespace {

using layout::Block;
using layout::Box;

// The elements that a strided part names, as their places in the outer tensor.
std::vector<std::int64_t> places(const Box& outer, const Box& inner) {
  alignas(4) std::array<float, 1> base{};
  const auto part = strided_part(base.data(), sizeof(float), outer, inner);
  const auto first = (static_cast<std::byte*>(part.data) - reinterpret_cast<std::byte*>(base.data())) /
                     static_cast<std::ptrdiff_t>(sizeof(float));
  std::vector<std::int64_t> list;
  for (std::int64_t row = 0; row < part.rows; ++row)
    for (std::int64_t k = 0; k < part.row_elements; ++k) list.push_back(first + row * part.stride_elements + k);
  return list;
}

TEST_CASE("a part of a vector is one run") {
  CHECK(places({{Block{0, 7}}}, {{Block{2, 5}}}) == std::vector<std::int64_t>{2, 3, 4});
  CHECK(places({{Block{3, 9}}}, {{Block{5, 6}}}) == std::vector<std::int64_t>{2});
}

TEST_CASE("rows of a matrix are neighbours, columns a run in each row") {
  const Box matrix{{Block{0, 3}, Block{0, 5}}};
  CHECK(places(matrix, {{Block{1, 3}, Block{0, 5}}}) == std::vector<std::int64_t>{5, 6, 7, 8, 9, 10, 11, 12, 13, 14});
  CHECK(places(matrix, {{Block{0, 3}, Block{1, 3}}}) == std::vector<std::int64_t>{1, 2, 6, 7, 11, 12});
  CHECK(places({{Block{1, 3}, Block{2, 5}}}, {{Block{2, 3}, Block{3, 5}}}) == std::vector<std::int64_t>{4, 5});
}

TEST_CASE("a cut of dim 1 takes all of the dims behind it") {
  const Box stack{{Block{0, 2}, Block{0, 3}, Block{0, 2}}};
  CHECK(places(stack, {{Block{0, 2}, Block{1, 2}, Block{0, 2}}}) == std::vector<std::int64_t>{2, 3, 8, 9});
  CHECK(places(stack, {{Block{1, 2}, Block{1, 3}, Block{0, 2}}}) == std::vector<std::int64_t>{8, 9, 10, 11});
}

TEST_CASE("a cut of the last dim is a run in each row, of whole dims before it or of a part of the first") {
  const Box stack{{Block{0, 2}, Block{0, 3}, Block{0, 2}}};
  CHECK(places(stack, {{Block{0, 2}, Block{0, 3}, Block{1, 2}}}) == std::vector<std::int64_t>{1, 3, 5, 7, 9, 11});
  CHECK(places(stack, {{Block{1, 2}, Block{0, 3}, Block{1, 2}}}) == std::vector<std::int64_t>{7, 9, 11});
  CHECK_THROWS_AS(places(stack, {{Block{0, 2}, Block{1, 3}, Block{1, 2}}}), std::logic_error);
}

TEST_CASE("an empty block names nothing") {
  const Box matrix{{Block{0, 3}, Block{0, 5}}};
  CHECK(places(matrix, {{Block{3, 3}, Block{0, 5}}}).empty());
  CHECK(places(matrix, {{Block{0, 3}, Block{5, 5}}}).empty());
}

}  // namespace
}  // namespace tessera::fsdp

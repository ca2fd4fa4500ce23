// If this failed, attention would not depend correctly on the positions of tokens.
#include "ops/rotary.h"

#include <cmath>

#include "support/about.h"
#include "support/gradient_check.h"

using namespace tessera;
using test::varied;

namespace {

// On both sides of each power of two that a narrower type could round to, up to the largest position that a model of
// this family is configured for (262144 positions).
const std::vector<std::int64_t> positions_of_a_model{0,    1,     127,   255,   256,    257,    513,   2047,
                                                     4095, 16385, 32767, 40959, 131071, 131073, 262143};

// The angle of pair `i`, in more digits than any type that computes here.
long double angle_of(std::int64_t position, double theta, std::int64_t i, std::int64_t head_dim) {
  return static_cast<long double>(position) *
         std::pow(static_cast<long double>(theta),
                  -2.0L * static_cast<long double>(i) / static_cast<long double>(head_dim));
}

// What four roundings of the frequency and the angle, each by half of `unit`, may change of a cosine or sine.
double allowed(long double angle, double unit) { return 4 * unit * (static_cast<double>(angle) + 1); }

}  // namespace

TEST_CASE("tables hold the cosine and sine of position times theta to the power of -2i / head_dim") {
  const auto tables = ops::rotary_tables(test::integers({0, 1, 17}), 10000, 10, at::kDouble);
  REQUIRE(tables.cosine.sizes() == at::IntArrayRef({3, 5}));
  for (std::int64_t i = 0; i < 5; ++i) {
    const double angle = 17 * std::pow(10000, -2.0 * static_cast<double>(i) / 10);
    CHECK(tables.cosine[2][i].item<double>() == test::about(std::cos(angle)).margin(1e-13));
    CHECK(tables.sine[2][i].item<double>() == test::about(std::sin(angle)).margin(1e-13));
    CHECK(tables.cosine[0][i].item<double>() == 1);
  }
}

TEST_CASE("tables are exact at every position that a model has, to the digits of their type") {
  const std::int64_t head_dim = 128;
  for (const auto& [type, unit] : {std::pair{at::kDouble, 0x1p-53}, {at::kFloat, 0x1p-24}})
    for (const double theta : {1e4, 1e6}) {
      const auto tables = ops::rotary_tables(test::integers(positions_of_a_model), theta, head_dim, type);
      REQUIRE(tables.cosine.scalar_type() == type);
      for (std::size_t t = 0; t < positions_of_a_model.size(); ++t)
        for (std::int64_t i = 0; i < head_dim / 2; ++i) {
          const auto angle = angle_of(positions_of_a_model[t], theta, i, head_dim);
          const auto row = static_cast<std::int64_t>(t);
          CAPTURE(at::toString(type), theta, positions_of_a_model[t], i);
          REQUIRE(tables.cosine[row][i].item<double>() ==
                  test::about(static_cast<double>(std::cos(angle))).margin(allowed(angle, unit)));
          REQUIRE(tables.sine[row][i].item<double>() ==
                  test::about(static_cast<double>(std::sin(angle))).margin(allowed(angle, unit)));
        }
    }
}

// A product rounded to bfloat16 is off by 2^-9 of itself; tables in bfloat16 would be off by 2^-9 of the inputs, and a
// position in bfloat16 by up to 1024.
TEST_CASE("heads in bfloat16 turn by the exact angle at every position that a model has") {
  const auto tokens = std::ssize(positions_of_a_model);
  const auto tables = ops::rotary_tables(test::integers(positions_of_a_model), 1e6, 16, at::kFloat);
  const auto x = varied({tokens, 3, 16}, 1, at::kBFloat16), y = ops::rotate(x, tables);
  REQUIRE(y.scalar_type() == at::kBFloat16);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t i = 0; i < 8; ++i) {
      const auto angle = angle_of(positions_of_a_model[static_cast<std::size_t>(t)], 1e6, i, 16);
      const auto cosine = static_cast<double>(std::cos(angle)), sine = static_cast<double>(std::sin(angle));
      const double a = x[t][2][i].to(at::kDouble).item<double>(), b = x[t][2][i + 8].to(at::kDouble).item<double>();
      const auto of_tables = (std::abs(a) + std::abs(b)) * allowed(angle, 0x1p-24);
      CAPTURE(positions_of_a_model[static_cast<std::size_t>(t)], i);
      const double first = a * cosine - b * sine, second = b * cosine + a * sine;
      REQUIRE(y[t][2][i].to(at::kDouble).item<double>() ==
              test::about(first).margin(std::abs(first) * 0x1p-8 + of_tables));
      REQUIRE(y[t][2][i + 8].to(at::kDouble).item<double>() ==
              test::about(second).margin(std::abs(second) * 0x1p-8 + of_tables));
    }
}

TEST_CASE("dim i turns with dim i + head_dim / 2, by the token's angle") {
  const auto tables = ops::rotary_tables(test::integers({3, 5}), 100, 6, at::kDouble);
  const auto x = varied({2, 3, 6}, 1), y = ops::rotate(x, tables);
  for (std::int64_t i = 0; i < 3; ++i) {
    const double angle = 5 * std::pow(100, -2.0 * static_cast<double>(i) / 6);
    const double a = x[1][2][i].item<double>(), b = x[1][2][i + 3].item<double>();
    CHECK(y[1][2][i].item<double>() == test::about(a * std::cos(angle) - b * std::sin(angle)).margin(1e-13));
    CHECK(y[1][2][i + 3].item<double>() == test::about(b * std::cos(angle) + a * std::sin(angle)).margin(1e-13));
  }
}

TEST_CASE("products of a query and a key depend on the distance of their positions only") {
  const auto q = varied({1, 1, 8}, 1), k = varied({1, 1, 8}, 2);
  const auto product = [&](std::int64_t at_query, std::int64_t at_key) {
    return ops::rotate(q, ops::rotary_tables(test::integers({at_query}), 1e4, 8, at::kDouble))
        .mul(ops::rotate(k, ops::rotary_tables(test::integers({at_key}), 1e4, 8, at::kDouble)))
        .sum()
        .item<double>();
  };
  CHECK(product(9, 4) == test::about(product(105, 100)).epsilon(1e-12));
}

TEST_CASE("the gradient of a rotation turns back") {
  auto x = varied({3, 5, 4}, 1);
  const auto tables = ops::rotary_tables(test::integers({0, 2, 11}), 50, 4, at::kDouble);
  test::check_gradients([&] { return test::probe(ops::rotate(x, tables)); }, {x}, {});
}

TEST_CASE("an odd head_dim is refused; zero tokens and bfloat16 are fine") {
  CHECK_THROWS_AS(ops::rotary_tables(test::integers({0}), 1e4, 5, at::kFloat), std::logic_error);
  const auto none = ops::rotary_tables(test::integers({}), 1e4, 4, at::kFloat);
  CHECK(ops::rotate(varied({0, 3, 4}, 1, at::kFloat), none).sizes() == at::IntArrayRef({0, 3, 4}));
  const auto tables = ops::rotary_tables(test::integers({0}), 1e4, 4, at::kFloat);
  const auto x = varied({1, 3, 4}, 1, at::kBFloat16);
  CHECK(test::distance(ops::rotate(x, tables), x) == 0);
}

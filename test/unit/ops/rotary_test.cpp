// Were this broken, tokens would not know where they stand.
#include "ops/rotary.h"

#include <cmath>

#include "support/gradient_check.h"

using namespace tessera;
using test::varied;

TEST_CASE("tables hold the cosine and sine of position times theta to the power of -2i / head_dim") {
  const auto tables = ops::rotary_tables(test::integers({0, 1, 17}), 10000, 10, at::kDouble);
  REQUIRE(tables.cosine.sizes() == at::IntArrayRef({3, 5}));
  for (std::int64_t i = 0; i < 5; ++i) {
    const double angle = 17 * std::pow(10000, -2.0 * static_cast<double>(i) / 10);
    CHECK(tables.cosine[2][i].item<double>() == Approx(std::cos(angle)).margin(1e-13));
    CHECK(tables.sine[2][i].item<double>() == Approx(std::sin(angle)).margin(1e-13));
    CHECK(tables.cosine[0][i].item<double>() == 1);
  }
}

TEST_CASE("dim i turns with dim i + head_dim / 2, by the token's angle") {
  const auto tables = ops::rotary_tables(test::integers({3, 5}), 100, 6, at::kDouble);
  const auto x = varied({2, 3, 6}, 1), y = ops::rotate(x, tables);
  for (std::int64_t i = 0; i < 3; ++i) {
    const double angle = 5 * std::pow(100, -2.0 * static_cast<double>(i) / 6);
    const double a = x[1][2][i].item<double>(), b = x[1][2][i + 3].item<double>();
    CHECK(y[1][2][i].item<double>() == Approx(a * std::cos(angle) - b * std::sin(angle)).margin(1e-13));
    CHECK(y[1][2][i + 3].item<double>() == Approx(b * std::cos(angle) + a * std::sin(angle)).margin(1e-13));
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
  CHECK(product(9, 4) == Approx(product(105, 100)).epsilon(1e-12));
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

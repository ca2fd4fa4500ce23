// Were this broken, rows would reach other tokens than their own, or sums would depend on threads.
#include "ops/rows.h"

#include <ATen/Parallel.h>

#include "support/gradient_check.h"

using namespace tessera;
using test::distance;
using test::varied;

TEST_CASE("taking rows and summing rows are each the other's gradient") {
  auto rows = varied({5, 3}, 1);
  const auto index = test::integers({4, 0, 4, 2, 4, 0, 1});
  test::check_gradients([&] { return test::probe(ops::take_rows(rows, index)); }, {rows}, {});
  auto many = varied({7, 3}, 2);
  test::check_gradients([&] { return test::probe(ops::sum_rows(many, index, 5)); }, {many}, {});
  const auto sums = ops::sum_rows(many, index, 5);
  CHECK(sums[3].abs().max().item<double>() == 0);
  CHECK(distance(sums[0], many[1].add(many[5])) == 0);
}

TEST_CASE("rows that no index names stay zero, and an empty index is fine") {
  CHECK(ops::sum_rows(varied({0, 3}, 1), test::integers({}), 4).sizes() == at::IntArrayRef({4, 3}));
  CHECK(ops::take_rows(varied({5, 3}, 1), test::integers({})).sizes() == at::IntArrayRef({0, 3}));
}

TEST_CASE("an index outside the sum is refused") {
  CHECK_THROWS_AS(ops::sum_rows(varied({2, 3}, 1), test::integers({0, 4}), 4), std::logic_error);
  CHECK_THROWS_AS(ops::sum_rows(varied({2, 3}, 1), test::integers({0, -1}), 4), std::logic_error);
}

TEST_CASE("sums have the same bits with one thread and with several") {
  const auto rows = varied({997, 301}, 1, at::kFloat);
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < 997; ++i) index.push_back(i * i % 11);
  const auto before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = ops::sum_rows(rows, test::integers(index), 11);
  at::set_num_threads(2);
  const auto two = ops::sum_rows(rows, test::integers(index), 11);
  at::set_num_threads(before);
  CHECK(distance(one, two) == 0);
}

// If this failed, rows would reach the wrong tokens, or sums would depend on the number of threads.
#include "ops/rows.h"

#include <ATen/Parallel.h>

#include "support/gradient_check.h"

using namespace tessera;
using test::distance;
using test::varied;

namespace {

// [n, hidden] of sums from zero.
at::Tensor sums_of(const at::Tensor& rows, const std::vector<std::int64_t>& index, std::int64_t n) {
  const auto sum = at::zeros({n, rows.size(1)}, rows.options());
  ops::add_rows(sum, test::integers(index), rows);
  return sum;
}

}  // namespace

TEST_CASE("the gradient of taking rows is their sum, with gradients by central differences") {
  auto rows = varied({5, 3}, 1);
  const auto index = test::integers({4, 0, 4, 2, 4, 0, 1});
  test::check_gradients([&] { return test::probe(ops::take_rows(rows, index)); }, {rows}, {});
}

TEST_CASE("rows are added to what is there") {
  const auto rows = varied({7, 3}, 2);
  const auto sum = at::full({5, 3}, 0.5, rows.options());
  ops::add_rows(sum, test::integers({4, 0, 4, 2, 4, 0, 1}), rows);
  CHECK(distance(sum[3], at::full({3}, 0.5, rows.options())) == 0);
  CHECK(distance(sum[0], rows[1].add(0.5).add(rows[5])) == 0);
  CHECK(distance(sum[4], rows[0].add(0.5).add(rows[2]).add(rows[4])) == 0);
}

TEST_CASE("an empty index is fine") {
  CHECK(sums_of(varied({0, 3}, 1), {}, 4).abs().max().item<double>() == 0);
  CHECK(ops::take_rows(varied({5, 3}, 1), test::integers({})).sizes() == at::IntArrayRef({0, 3}));
}

TEST_CASE("an index outside the sum is refused") {
  CHECK_THROWS_AS(sums_of(varied({2, 3}, 1), {0, 4}, 4), std::logic_error);
  CHECK_THROWS_AS(sums_of(varied({2, 3}, 1), {0, -1}, 4), std::logic_error);
}

TEST_CASE("sums have the same bits with one thread and with several") {
  const auto rows = varied({997, 301}, 1, at::kFloat);
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < 997; ++i) index.push_back(i * i % 11);
  const auto before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = sums_of(rows, index, 11);
  at::set_num_threads(2);
  const auto two = sums_of(rows, index, 11);
  at::set_num_threads(before);
  CHECK(distance(one, two) == 0);
}

// If this failed, clipping would depend on where parameters live, or a gradient that is not finite would be trained on.
#include "optim/gradient_norm.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/about.h"
#include "support/catch.h"

namespace tessera::optim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan = std::nan("");

at::Tensor numbers(std::vector<float> values) { return at::tensor(values); }

// What Sum does with the parts of two ranks.
std::vector<double> sum(const std::vector<double>& a, const std::vector<double>& b, Combination rule) {
  std::vector<double> parts;
  for (std::size_t i = 0; i < a.size(); ++i)
    parts.push_back(rule == Combination::sum ? a[i] + b[i] : std::max(a[i], b[i]));
  return parts;
}

TEST_CASE("ranks that own different experts share one norm") {
  const auto [norm_type, expected] = GENERATE(
      table<double, double>({{2.0, 10.954451150103322}, {1.0, 20.0}, {infinity, 8.0}, {3.0, std::cbrt(800.0)}}));
  const at::Tensor first = numbers({2, 0, 4}), second = numbers({6, 8}), zero = at::zeros({5}),
                   embedding = at::zeros({3}, at::kDouble);
  const std::vector<GroupedGradient> rank0{{&zero, 0}, {&first, 1}}, rank1{{&second, 1}, {&embedding, 2}};
  const auto parts = sum(norm_parts(rank0, 3, norm_type), norm_parts(rank1, 3, norm_type), combination_of(norm_type));
  const GradientNorms norms = finish_norms(parts, norm_type);
  CHECK(norms.total == test::about(expected).epsilon(1e-15));
  CHECK(norms.groups == std::vector<double>{0, norms.total, 0});
  if (norm_type == 2.0) CHECK(clip_factor(norms.total, 1.0) == test::about(0.0912871).margin(5e-8));
}

TEST_CASE("an owner without gradient contributes nothing and still has a part for each group") {
  const at::Tensor second = numbers({6, 8});
  const std::vector<GroupedGradient> rank1{{&second, 1}};
  CHECK(norm_parts({}, 2, 2.0) == std::vector<double>{0, 0});
  CHECK(finish_norms(sum(norm_parts({}, 2, 2.0), norm_parts(rank1, 2, 2.0), Combination::sum), 2.0).total == 10.0);
}

TEST_CASE("three groups combine to the total in every norm") {
  const at::Tensor a = numbers({3}), b = numbers({-4}), c = numbers({12});
  const std::vector<GroupedGradient> all{{&a, 0}, {&b, 1}, {&c, 2}};
  const auto total = [&](double p) { return finish_norms(norm_parts(all, 3, p), p).total; };
  CHECK(total(2.0) == 13.0);
  CHECK(total(1.0) == 19.0);
  CHECK(total(infinity) == 12.0);
  CHECK(finish_norms(norm_parts(all, 3, infinity), infinity).groups == std::vector<double>{3, 4, 12});
}

TEST_CASE("sums are formed in float64 and do not depend on threads") {
  const std::int64_t n = 100'003;
  const at::Tensor ramp = at::arange(n, at::kFloat);
  const double count = static_cast<double>(n);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = norm_part(ramp, 2.0);
  at::set_num_threads(3);
  const double shared = norm_part(ramp, 2.0);
  at::set_num_threads(threads);
  CHECK(alone == shared);
  CHECK(alone == (count - 1) * count * (2 * count - 1) / 6);  // all squares and partial sums are integers below 2^53
  CHECK(norm_part(ramp, 1.0) == (count - 1) * count / 2);
  CHECK(norm_part(ramp, infinity) == count - 1);
}

TEST_CASE("an element that is not finite makes the norm so, wherever it stands") {
  for (const double bad : {nan, infinity, -infinity})
    for (const double norm_type : {1.0, 2.0, 2.5, infinity})
      for (const std::int64_t at : {0, 7, 40'000, 70'000}) {
        at::Tensor gradient = at::zeros({70'001}, at::kDouble).fill_(0.5);
        gradient[at].fill_(bad);
        const std::vector<GroupedGradient> shards{{&gradient, 0}};
        const double total = finish_norms(norm_parts(shards, 1, norm_type), norm_type).total;
        REQUIRE((std::isnan(bad) ? std::isnan(total) : std::isinf(total)));
        REQUIRE(std::isnan(clip_factor(total, 1.0)));
      }
}

TEST_CASE("an empty shard has no part") {
  CHECK(norm_part(at::zeros({0, 5}), 2.0) == 0);
  CHECK(norm_part(at::zeros({0}), infinity) == 0);
}

TEST_CASE("the clip limit: 0 and infinity do not clip, and small gradients are left alone") {
  CHECK(clip_factor(10, 0) == 1);
  CHECK(clip_factor(10, infinity) == 1);
  CHECK(clip_factor(0, 1) == 1);
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(4, 1) == test::about(0.25).epsilon(1e-6));
  CHECK_THROWS_AS(clip_factor(1, -1), std::logic_error);
  CHECK_THROWS_AS(clip_factor(1, nan), std::logic_error);
  CHECK_THROWS_AS(combination_of(0), std::logic_error);
}

}  // namespace
}  // namespace tessera::optim

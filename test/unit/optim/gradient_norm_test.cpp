// If this failed, clipping would depend on which rank holds a parameter, or gradients that are not finite would be
// trained on.
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

// Combines the parts of two ranks as Sum does: the larger of a number and NaN is NaN.
std::vector<double> sum(const std::vector<double>& a, const std::vector<double>& b, Combination rule) {
  std::vector<double> parts;
  for (std::size_t i = 0; i < a.size(); ++i)
    parts.push_back(rule == Combination::sum ? a[i] + b[i] : std::isnan(a[i]) || a[i] > b[i] ? a[i] : b[i]);
  return parts;
}

using Gradients = std::vector<GroupedGradient>;

// Does what *close* does: combines the largest elements of all ranks first, if they scale the norm, then the parts.
GradientNorms norms_of(const std::vector<Gradients>& ranks, std::size_t groups, double norm_type) {
  const auto combined = [&](double p, const std::vector<double>& scales) {
    std::vector<double> parts(groups, 0.0);
    for (const auto& gradients : ranks) parts = sum(parts, norm_parts(gradients, groups, p, scales), combination_of(p));
    return parts;
  };
  const auto scales = is_scaled(norm_type) ? combined(infinity, {}) : std::vector<double>{};
  return finish_norms(combined(norm_type, scales), norm_type, scales);
}

TEST_CASE("ranks that own different experts share one norm") {
  const auto [norm_type, expected] = GENERATE(
      table<double, double>({{2.0, 10.954451150103322}, {1.0, 20.0}, {infinity, 8.0}, {3.0, std::cbrt(800.0)}}));
  const at::Tensor first = numbers({2, 0, 4}), second = numbers({6, 8}), zero = at::zeros({5}),
                   embedding = at::zeros({3}, at::kDouble);
  const Gradients rank0{{&zero, 0}, {&first, 1}}, rank1{{&second, 1}, {&embedding, 2}};
  const GradientNorms norms = norms_of({rank0, rank1}, 3, norm_type);
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
        // The group that it is in, and beside a group that is sound, on another rank.
        const at::Tensor sound = numbers({0.25, 1});
        const auto norms = norms_of({{{&gradient, 0}}, {{&sound, 0}, {&sound, 1}}}, 2, norm_type);
        REQUIRE((std::isnan(bad) ? std::isnan(norms.groups[0]) : std::isinf(norms.groups[0])));
        REQUIRE(std::isfinite(norms.groups[1]));
        const double total = norms.total;
        REQUIRE((std::isnan(bad) ? std::isnan(total) : std::isinf(total)));
        REQUIRE(std::isnan(clip_factor(total, 1.0)));
      }
}

TEST_CASE("a norm of any p is right to rounding where powers of the elements leave the range of float64") {
  const at::Tensor small = at::tensor({3e-30, -4e-30, 4e-30}, at::kDouble), large = numbers({3e20F, -3e20F}),
                   middle = numbers({0.5, -0.5, 0.5, 0.25});
  const auto off = [](double is, double expected) { return std::abs(is - expected) / expected; };
  for (const double p : {1.5, 3.0, 100.0, 1000.0, 1e6}) {
    CAPTURE(p);
    const auto twice = std::pow(2.0, 1 / p), thrice = std::pow(3 + std::pow(0.5, p), 1 / p);
    const auto of_small = 4e-30 * std::pow(2 + std::pow(0.75, p), 1 / p);
    CHECK(off(norms_of({{{&small, 0}}}, 1, p).total, of_small) <= 1e-14);
    CHECK(off(norms_of({{{&large, 0}}}, 1, p).total, static_cast<double>(3e20F) * twice) <= 1e-14);
    CHECK(off(norms_of({{{&middle, 0}}}, 1, p).total, 0.5 * thrice) <= 1e-14);
    // One group each, the largest elsewhere; and one group over three ranks.
    const auto apart = norms_of({{{&small, 0}, {&middle, 1}}, {{&large, 2}}}, 3, p);
    CHECK(off(apart.groups[0], of_small) <= 1e-14);
    CHECK(off(apart.groups[1], 0.5 * thrice) <= 1e-14);
    CHECK(off(apart.total, static_cast<double>(3e20F) * twice) <= 1e-14);
    CHECK(off(norms_of({{{&small, 0}}, {{&large, 0}}, {{&middle, 0}}}, 1, p).total,
              static_cast<double>(3e20F) * twice) <= 1e-14);
    const at::Tensor zero = at::zeros({3});
    CHECK(norms_of({{{&zero, 0}}, {}}, 2, p).total == 0);
  }
}

TEST_CASE("a scaled norm without its scales, or another with some, is no norm") {
  CHECK_THROWS_AS(norm_parts({}, 2, 3.0), std::logic_error);
  CHECK_THROWS_AS(norm_parts({}, 1, 2.0, std::vector{1.0}), std::logic_error);
  CHECK_THROWS_AS(norm_part(numbers({1}), 3.0), std::logic_error);
  CHECK_THROWS_AS(finish_norms(std::vector{1.0}, 3.0), std::logic_error);
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

// If this failed, two layouts of one run would start from different weights, or initial weights would have the wrong
// scale.
#include "model/initial_values.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <numbers>

#include "model/normal_numbers.h"
#include "support/about.h"
#include "support/catch.h"

namespace tessera::model {
namespace {

using architecture::Initial;
using layout::Block;
using layout::Box;

const base::ParameterSpec experts{"model.layers.1.mlp.experts.gate_proj", {7, 11, 15}};

at::Tensor values_of(const base::ParameterSpec& parameter, const Box& box, std::uint64_t seed = 42,
                     at::ScalarType type = at::kDouble, double deviation = 0.02, Initial initial = Initial::normal) {
  const at::Tensor out = at::full(box.shape(), std::nan(""), type);
  fill_initial_values(parameter, box, initial, deviation, seed, out);
  return out;
}

at::Tensor part(const at::Tensor& whole, const Box& box) {
  at::Tensor view = whole;
  for (std::size_t dim = 0; dim < box.dims.size(); ++dim)
    view = view.narrow(static_cast<std::int64_t>(dim), box.dims[dim].begin, box.dims[dim].size());
  return view;
}

TEST_CASE("any box of a parameter has the bits of the whole") {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor whole = values_of(experts, layout::whole_box(experts.shape), 42, type);
    for (const Box& box :
         {Box{{{0, 7}, {0, 11}, {0, 15}}}, Box{{{2, 5}, {0, 11}, {0, 15}}}, Box{{{0, 7}, {3, 8}, {0, 15}}},
          Box{{{1, 6}, {10, 11}, {4, 9}}}, Box{{{6, 7}, {5, 6}, {14, 15}}}, Box{{{3, 3}, {0, 11}, {0, 15}}}})
      CHECK(at::equal(values_of(experts, box, 42, type), part(whole, box)));
  }
}

TEST_CASE("a parameter longer than one thread's piece has the bits of its elements made alone") {
  const base::ParameterSpec head{"lm_head.weight", {3, 20011}};
  const at::Tensor whole = values_of(head, layout::whole_box(head.shape));
  for (const std::int64_t column : {0, 1, 16383, 16384, 16385, 20010})
    for (std::int64_t row = 0; row < 3; ++row) {
      const Box one{{{row, row + 1}, {column, column + 1}}};
      CHECK(at::equal(values_of(head, one), part(whole, one)));
    }
}

TEST_CASE("float32 values are the float64 values rounded") {
  const Box box = layout::whole_box(experts.shape);
  CHECK(at::equal(values_of(experts, box, 42, at::kFloat), values_of(experts, box).to(at::kFloat)));
}

TEST_CASE("another seed or another parameter has other values") {
  const Box box = layout::whole_box(experts.shape);
  const at::Tensor values = values_of(experts, box);
  CHECK(at::equal(values, values_of(experts, box, 42)));
  CHECK_FALSE(values.eq(values_of(experts, box, 43)).any().item<bool>());
  const base::ParameterSpec other{"model.layers.2.mlp.experts.gate_proj", experts.shape};
  CHECK_FALSE(values.eq(values_of(other, box)).any().item<bool>());
}

TEST_CASE("matrices are normal with the configured deviation") {
  const base::ParameterSpec embedding{"model.embed_tokens.weight", {401, 499}};
  const at::Tensor z = values_of(embedding, layout::whole_box(embedding.shape), 7, at::kDouble, 0.02).div(0.02);
  const double n = static_cast<double>(z.numel());
  const auto mean = [](const at::Tensor& tensor) { return tensor.mean().item<double>(); };
  // Five standard deviations of each estimate.
  CHECK(std::abs(mean(z)) < 5 / std::sqrt(n));
  CHECK(std::abs(mean(z.pow(2)) - 1) < 5 * std::sqrt(2 / n));
  CHECK(std::abs(mean(z.pow(3))) < 5 * std::sqrt(15 / n));
  CHECK(std::abs(mean(z.pow(4)) - 3) < 5 * std::sqrt(96 / n));
  const at::Tensor flat = z.flatten();
  for (const std::int64_t lag : {1, 2, 499})
    CHECK(std::abs(mean(flat.slice(0, lag).mul(flat.slice(0, 0, flat.numel() - lag)))) < 5 / std::sqrt(n));
  for (const double limit : {-2.0, -0.5, 0.0, 1.0, 2.5}) {
    const double below = 0.5 * std::erfc(-limit / std::numbers::sqrt2);
    CHECK(std::abs(mean(z.lt(limit).to(at::kDouble)) - below) < 5 * std::sqrt(below * (1 - below) / n));
  }
}

TEST_CASE("ones and zeros are that, whatever the seed and the deviation") {
  const base::ParameterSpec vector{"model.norm.weight", {9}};
  const Box box{{{2, 7}}};
  CHECK(values_of(vector, box, 1, at::kFloat, 0.02, Initial::ones).eq(1).all().item<bool>());
  CHECK(values_of(vector, box, 1, at::kDouble, 0.02, Initial::zeros).eq(0).all().item<bool>());
}

TEST_CASE("a pair of normal numbers is Box and Muller's transform of its Philox block") {
  const base::Philox random(5, 77);
  for (std::uint64_t pair = 0; pair < 20000; ++pair) {
    const auto block = random(pair);
    const auto join = [&](std::size_t low) { return std::uint64_t{block[low + 1]} << 32 | block[low]; };
    const double uniform = 1 - std::ldexp(static_cast<double>(join(0) >> 11), -53);
    const double radius = std::sqrt(-2 * std::log(uniform));
    const double quarter = static_cast<double>(join(2) >> 62);
    const double within = std::ldexp(static_cast<double>((join(2) & 0x3FFFFFFFFFFFFFFF) >> 9), -53) - 0.5;
    const double angle = std::numbers::pi / 2 * (quarter + within);
    const NormalPair z = normal_pair(random, pair);
    REQUIRE(z.even == test::about(radius * std::cos(angle)).epsilon(1e-12).margin(1e-14));
    REQUIRE(z.odd == test::about(radius * std::sin(angle)).epsilon(1e-12).margin(1e-14));
  }
}

TEST_CASE("a wrong shape or type is refused") {
  const auto fill = [&](const base::ParameterSpec& parameter, const Box& box, const at::Tensor& out) {
    fill_initial_values(parameter, box, Initial::normal, 0.02, 1, out);
  };
  const Box box = layout::whole_box(experts.shape);
  const at::Tensor right = at::zeros({7, 11, 15});
  CHECK_NOTHROW(fill(experts, box, right));
  CHECK_THROWS_AS(fill(experts, box, at::zeros({7, 15, 11})), std::logic_error);
  CHECK_THROWS_AS(fill(experts, box, right.to(at::kHalf)), std::logic_error);
  CHECK_THROWS_AS(fill(experts, box, at::zeros({15, 11, 7}).transpose(0, 2)), std::logic_error);
  CHECK_THROWS_AS(fill(experts, Box{{{1, 8}, {0, 11}, {0, 15}}}, right), std::logic_error);
}

}  // namespace
}  // namespace tessera::model

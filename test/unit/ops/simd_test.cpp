// If this failed, softmax, loss and activations would be wrong by more than rounding.
#include "ops/simd.h"

#include <limits>
#include <vector>

#include "support/catch.h"

namespace simd = tessera::ops::simd;

namespace {

std::vector<float> exponentials(const std::vector<float>& x) {
  std::vector<float> result(x.size());
  simd::run([&]() __attribute__((always_inline)) {
#pragma omp simd
    for (std::size_t i = 0; i < x.size(); ++i) result[i] = simd::exp(x[i]);
  });
  return result;
}

}  // namespace

TEST_CASE("the exponential is within two units in the last place over its whole range") {
  std::vector<float> x;
  for (double v = -87.3; v < 88.7; v += 1.0 / 4096 + 1e-7) x.push_back(static_cast<float>(v));
  const auto y = exponentials(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    worst = std::max(worst, std::abs(static_cast<double>(y[i]) - exact) / exact);
  }
  CHECK(worst < 2 * static_cast<double>(std::numeric_limits<float>::epsilon()));
}

TEST_CASE("the exponential of zero is one, of very small zero, of very large infinite, of NaN NaN") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto y = exponentials(
      {0.F, -infinity, infinity, std::numeric_limits<float>::quiet_NaN(), -1e30F, 1e30F, -90.F, 90.F, -0.F});
  CHECK(y[0] == 1.F);
  CHECK(y[1] == 0.F);
  CHECK(y[2] == infinity);
  CHECK(std::isnan(y[3]));
  CHECK(y[4] == 0.F);
  CHECK(y[5] == infinity);
  CHECK(y[6] == 0.F);
  CHECK(y[7] == infinity);
  CHECK(y[8] == 1.F);
}

TEST_CASE("the largest value is found wherever it stands, among negative and infinite ones too") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (std::size_t place = 0; place < 67; ++place) {
    std::vector<float> x(67, -3.F);
    x[place] = -2.5F;
    CHECK(simd::largest(x.data(), 67) == -2.5F);
    x[(place + 13) % 67] = 0.25F;
    CHECK(simd::largest(x.data(), 67) == 0.25F);
    x[place] = infinity;
    CHECK(simd::largest(x.data(), 67) == infinity);
  }
  const std::vector<float> none(5, -infinity);
  CHECK(simd::largest(none.data(), 5) == -infinity);
  CHECK(simd::largest(none.data(), 0) == -infinity);
  const std::vector<double> wide{-2, -1, -3};
  CHECK(simd::largest(wide.data(), 3) == -1);
}

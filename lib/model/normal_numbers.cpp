#include "model/normal_numbers.h"

#include <bit>
#include <cmath>

namespace tessera::model {
namespace {

// log(x) for x in (0, 1], not subnormal: x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2). Polynomial and reduction of
// fdlibm's e_log.c (Sun Microsystems 1993; error < 1 ulp).
double logarithm(double x) noexcept {
  constexpr std::uint64_t one = 0x3FF0000000000000;
  constexpr std::uint64_t root_half = 0x3FE6A09E667F3BCD;
  const std::uint64_t shifted = std::bit_cast<std::uint64_t>(x) + (one - root_half);
  const double k = static_cast<double>(static_cast<std::int64_t>(shifted >> 52) - 1023);
  const double f = std::bit_cast<double>((shifted & 0xFFFFFFFFFFFFF) + root_half) - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double w = z * z;
  const double t1 = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double t2 =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half_square = 0.5 * f * f;
  return k * 6.93147180369123816490e-01 -
         ((half_square - (s * (half_square + (t1 + t2)) + k * 1.90821492927058770002e-10)) - f);
}

// For |x| <= pi / 4: fdlibm's k_sin.c and k_cos.c.
double sine(double x) noexcept {
  const double z = x * x;
  const double r =
      8.33333333332248946124e-03 +
      z * (-1.98412698298579493134e-04 +
           z * (2.75573137070700676789e-06 + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)));
  return x + z * x * (-1.66666666666666324348e-01 + z * r);
}

double cosine(double x) noexcept {
  const double z = x * x;
  const double r = z * (4.16666666666666019037e-02 +
                        z * (-1.38888888888741095749e-03 +
                             z * (2.48015872894767294178e-05 +
                                  z * (-2.75573143513906633035e-07 +
                                       z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
  return 1.0 - (0.5 * z - z * r);
}

double flip(double x, std::uint64_t sign_bit) noexcept {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) ^ sign_bit);
}

constexpr std::uint64_t join(std::uint32_t low, std::uint32_t high) noexcept {
  return (std::uint64_t{high} << 32) | low;
}

}  // namespace

// The first half of the block gives the radius. Of the second, two bits choose a quarter of the circle, the others the
// angle within it, from -pi/4 to pi/4.
NormalPair normal_pair(const base::Philox& random, std::uint64_t pair) noexcept {
  const base::Philox::Block block = random(pair);
  const double uniform = 1.0 - static_cast<double>(join(block[0], block[1]) >> 11) * 0x1.0p-53;  // (0, 1]
  const double radius = std::sqrt(-2.0 * logarithm(uniform));
  const std::uint64_t turn = join(block[2], block[3]);
  const double within = static_cast<double>((turn & 0x3FFFFFFFFFFFFFFF) >> 9) * 0x1.0p-53 - 0.5;  // [-1/2, 1/2)
  const double angle = within * 1.57079632679489661923;
  const double c = radius * cosine(angle);
  const double s = radius * sine(angle);
  // Quarter q turns (c, s) into (c, s), (-s, c), (-c, -s), (s, -c); without branches, which would be mispredicted.
  const std::uint64_t quarter = turn >> 62;
  const bool swapped = (quarter & 1) != 0;
  const std::uint64_t even_sign = (quarter ^ (quarter >> 1)) << 63;
  const std::uint64_t odd_sign = (quarter >> 1) << 63;
  return {flip(swapped ? s : c, even_sign), flip(swapped ? c : s, odd_sign)};
}

}  // namespace tessera::model

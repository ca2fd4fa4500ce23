// Compiles loops over plain memory for AVX2 as well as for the baseline processor, and picks one when the program runs.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#define TESSERA_INLINE inline __attribute__((always_inline))

namespace tessera::ops::simd {

#if defined(__x86_64__) && defined(__GNUC__)
template <class Body>
__attribute__((target("avx2,fma"))) void run_with_avx2(const Body& body) {
  body();
}
#endif

// Runs body(), compiled for AVX2 if the processor has AVX2 and FMA; loops marked `omp simd` are vectorised. `body` must
// be a lambda marked __attribute__((always_inline)) that calls only TESSERA_INLINE functions.
template <class Body>
void run(const Body& body) {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2) return run_with_avx2(body);
#endif
  body();
}

// e^x for loops marked `omp simd`, within 2 units in the last place: zero below -87.3, infinite above 88.7, NaN for
// NaN.
// (Cephes expf: x = n ln 2 + r, |r| <= ln(2) / 2, a polynomial in r.)
TESSERA_INLINE float exp(float x) {
  constexpr float round_to_integer = 12582912.F;  // 1.5 * 2^23
  const float shifted = x * 1.44269504F + round_to_integer;
  const float n = shifted - round_to_integer;
  float r = x - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.F;
  const auto exponent =
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(round_to_integer));
  const std::int32_t half = exponent >> 1;  // two factors, so that each is a normal number
  p *= std::bit_cast<float>((half + 127) << 23);
  p *= std::bit_cast<float>((exponent - half + 127) << 23);
  // Masks, not branches: the compiler would move the polynomial into a branch, and then not vectorise the loop.
  const std::int32_t below = -static_cast<std::int32_t>(x < -87.3365447F);
  const std::int32_t above = -static_cast<std::int32_t>(x > 88.7228317F);
  return std::bit_cast<float>((std::bit_cast<std::int32_t>(p) & ~(below | above)) | (above & 0x7f800000));
}

TESSERA_INLINE double exp(double x) { return std::exp(x); }

// The largest of n values; -infinity if there is none. Compared as integers in the same order, because a maximum of
// floating numbers has rules for NaN that keep the loop from being vectorised.
TESSERA_INLINE float largest(const float* values, std::int64_t n) {
  const auto ordered = [](std::int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); };  // its own inverse
  std::int32_t result = ordered(std::bit_cast<std::int32_t>(-std::numeric_limits<float>::infinity()));
#pragma omp simd reduction(max : result)
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::int32_t>(values[i]);
    const std::int32_t key = bits ^ ((bits >> 31) & 0x7fffffff);
    result = key > result ? key : result;
  }
  return std::bit_cast<float>(ordered(result));
}

TESSERA_INLINE double largest(const double* values, std::int64_t n) {
  double result = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i) result = values[i] > result ? values[i] : result;
  return result;
}

template <class Wide>
TESSERA_INLINE Wide sigmoid(Wide x) {
  return Wide(1) / (Wide(1) + exp(-x));
}

}  // namespace tessera::ops::simd

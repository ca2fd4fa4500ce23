// Conversions of numbers in code that runs on a GPU and, in tests, on the CPU, with the same bits on both.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TESSERA_HOST_AND_GPU __host__ __device__
#else
#define TESSERA_HOST_AND_GPU
#endif

namespace tessera::device {

// bfloat16 as it lies in memory: the upper half of a float32.
struct Bfloat16 {
  std::uint16_t bits;
};

TESSERA_HOST_AND_GPU inline float widened(Bfloat16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result = 0;
  memcpy(&result, &bits, sizeof result);
  return result;
}
template <class T>
TESSERA_HOST_AND_GPU T widened(T value) {
  return value;
}

// Rounds to nearest, ties to even; NaN stays NaN.
TESSERA_HOST_AND_GPU inline void narrow(float value, Bfloat16& to) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16) & 1U);
  to.bits = static_cast<std::uint16_t>((value != value ? bits | 0x400000U : rounded) >> 16);
}
template <class T>
TESSERA_HOST_AND_GPU void narrow(T value, T& to) {
  to = value;
}

}  // namespace tessera::device

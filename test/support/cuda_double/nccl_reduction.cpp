#include "support/cuda_double/nccl_reduction.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tessera::test::cuda_double {

namespace {

struct Bfloat16 {
  std::uint16_t bits = 0;

  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static Bfloat16 rounded(float value) {
    const auto all = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return {0x7FFF};
    return {static_cast<std::uint16_t>((all + 0x7FFF + ((all >> 16) & 1)) >> 16)};
  }
};

// As CUDA's fmaxf and fminf, which NCCL uses: of a NaN and a number the number.
template <class T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmax(a, b);
  return std::max(a, b);
}

template <class T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return std::fmin(a, b);
  return std::min(a, b);
}

template <class T>
T combine(T a, T b, ncclRedOp_t reduction) {
  switch (reduction) {
    case ncclProd: return static_cast<T>(a * b);
    case ncclMax: return larger(a, b);
    case ncclMin: return smaller(a, b);
    default: return static_cast<T>(a + b);
  }
}

Bfloat16 combine(Bfloat16 a, Bfloat16 b, ncclRedOp_t reduction) {
  return Bfloat16::rounded(combine(static_cast<float>(a), static_cast<float>(b), reduction));
}

template <class T>
void reduce(std::byte* into, const std::byte* other, std::size_t count, ncclRedOp_t reduction) {
  for (std::size_t k = 0; k < count; ++k) {
    T a, b;
    std::memcpy(&a, into + k * sizeof(T), sizeof(T));
    std::memcpy(&b, other + k * sizeof(T), sizeof(T));
    a = combine(a, b, reduction);
    std::memcpy(into + k * sizeof(T), &a, sizeof(T));
  }
}

}  // namespace

void reduce_into(std::byte* into, const std::byte* other, std::size_t count, ncclDataType_t type,
                 ncclRedOp_t reduction) {
  switch (type) {
    case ncclInt8: return reduce<std::int8_t>(into, other, count, reduction);
    case ncclUint8: return reduce<std::uint8_t>(into, other, count, reduction);
    case ncclInt32: return reduce<std::int32_t>(into, other, count, reduction);
    case ncclUint32: return reduce<std::uint32_t>(into, other, count, reduction);
    case ncclInt64: return reduce<std::int64_t>(into, other, count, reduction);
    case ncclUint64: return reduce<std::uint64_t>(into, other, count, reduction);
    case ncclFloat32: return reduce<float>(into, other, count, reduction);
    case ncclFloat64: return reduce<double>(into, other, count, reduction);
    case ncclBfloat16: return reduce<Bfloat16>(into, other, count, reduction);
    default: return;
  }
}

}  // namespace tessera::test::cuda_double

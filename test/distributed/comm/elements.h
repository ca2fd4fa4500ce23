// Elements of every type that collectives know, with whole numbers whose sums are exact in each type and any order.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "comm/communicator.h"

namespace tessera::test {

struct Bfloat16 {
  std::uint16_t bits = 0;
  Bfloat16() = default;
  // Precondition: |value| <= 256, a whole number (or one of few binary digits).
  explicit Bfloat16(double value)
      : bits(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16)) {}
  friend bool operator==(const Bfloat16&, const Bfloat16&) = default;
};

template <class T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr auto type = comm::ElementType::float32;
  using Sum = float;
};
template <>
struct TypeOf<Bfloat16> {
  static constexpr auto type = comm::ElementType::bfloat16;
  using Sum = float;
};
template <>
struct TypeOf<double> {
  static constexpr auto type = comm::ElementType::float64;
  using Sum = double;
};
template <>
struct TypeOf<std::int32_t> {
  static constexpr auto type = comm::ElementType::int32;
  using Sum = std::int32_t;
};
template <>
struct TypeOf<std::int64_t> {
  static constexpr auto type = comm::ElementType::int64;
  using Sum = std::int64_t;
};

// The contribution of `rank` to element `index`, and the sum and the largest of it over `ranks` ranks.
inline double contribution(std::int64_t rank, std::int64_t index) {
  return static_cast<double>((rank + 1) * (index % 7 - 3));
}
inline double sum_of(std::int64_t ranks, std::int64_t index) {
  return static_cast<double>(ranks * (ranks + 1) / 2 * (index % 7 - 3));
}
inline double largest_of(std::int64_t ranks, std::int64_t index) {
  const auto factor = index % 7 - 3;
  return static_cast<double>(factor > 0 ? ranks * factor : factor);
}

// The part of rank `k` when `total` is divided into blocks of ceil(total / ranks); the last ones may be short or empty.
struct Block {
  std::int64_t begin, end;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};
inline Block block_of(std::int64_t total, std::int64_t ranks, std::int64_t k) {
  const auto size = (total + ranks - 1) / ranks;
  return {std::min(k * size, total), std::min((k + 1) * size, total)};
}

}  // namespace tessera::test

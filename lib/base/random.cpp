#include "base/random.h"

#include "base/hash.h"

namespace tessera::base {
namespace {

constexpr std::uint32_t rounds = 6;
constexpr unsigned least_half_bits = 3;  // with fewer bits, small ranges would get few of their permutations

}  // namespace

std::uint64_t stream_of(std::string_view name) { return xxh3(name); }

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t stream) noexcept
    : n_(n), philox_(seed, stream), half_bits_(least_half_bits) {
  while (half_bits_ < 32 && (std::uint64_t{1} << (2 * half_bits_)) < n_) ++half_bits_;
}

std::uint64_t Permutation::network(std::uint64_t x) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = x >> half_bits_;
  std::uint64_t right = x & mask;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::uint64_t mixed = left ^ (philox_.bits((round << 32) | right) & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

std::vector<std::uint32_t> Permutation::rounds_table() const {
  const std::uint64_t half = std::uint64_t{1} << half_bits_;
  std::vector<std::uint32_t> table;
  table.reserve(rounds * half);
  for (std::uint64_t round = 0; round < rounds; ++round)
    for (std::uint64_t right = 0; right < half; ++right)
      table.push_back(static_cast<std::uint32_t>(philox_.bits((round << 32) | right) & (half - 1)));
  return table;
}

// The network permutes 2^(2 half_bits) >= n numbers. Applying it again until the result is below n maps the numbers
// below n one to one onto themselves.
std::uint64_t Permutation::operator()(std::uint64_t i) const noexcept {
  if (n_ < 2) return i;
  std::uint64_t x = network(i);
  while (x >= n_) x = network(x);
  return x;
}

}  // namespace tessera::base

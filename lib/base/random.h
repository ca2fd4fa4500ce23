// Counter-based random numbers: each is a function of (seed, stream, counter) and nothing else, so every rank can draw
// any element, in any order, and gets the same value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::base {

// Philox 4x32-10: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
class Philox {
 public:
  using Block = std::array<std::uint32_t, 4>;

  // Selects the sequence of 2^64 blocks of (seed, stream): the seed is the key, the stream the counter's upper half.
  Philox(std::uint64_t seed, std::uint64_t stream) noexcept : seed_(seed), stream_(stream) {}

  // Block `counter` of the sequence.
  [[nodiscard]] Block operator()(std::uint64_t counter) const noexcept {
    return generate({low(counter), high(counter), low(stream_), high(stream_)}, {low(seed_), high(seed_)});
  }

  // 64 random bits of element i.
  [[nodiscard]] std::uint64_t bits(std::uint64_t i) const noexcept {
    const Block b = (*this)(i);
    return join(b[0], b[1]);
  }

  // The function of the paper, from counter and key to block.
  [[nodiscard]] static Block generate(Block counter, std::array<std::uint32_t, 2> key) noexcept;

 private:
  static std::uint32_t low(std::uint64_t x) noexcept { return static_cast<std::uint32_t>(x); }
  static std::uint32_t high(std::uint64_t x) noexcept { return static_cast<std::uint32_t>(x >> 32); }
  static std::uint64_t join(std::uint32_t lo, std::uint32_t hi) noexcept { return (std::uint64_t{hi} << 32) | lo; }

  std::uint64_t seed_;
  std::uint64_t stream_;
};

inline Philox::Block Philox::generate(Block c, std::array<std::uint32_t, 2> k) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
    c = {high(p1) ^ c[1] ^ k[0], low(p1), high(p0) ^ c[3] ^ k[1], low(p0)};
    k[0] += 0x9E3779B9U;
    k[1] += 0xBB67AE85U;
  }
  return c;
}

// Returns the stream number of a name (an FQN): its XXH3.
[[nodiscard]] std::uint64_t stream_of(std::string_view name);

// A keyed permutation of [0, n) in O(1) memory: a balanced Feistel network of six Philox rounds over the smallest even
// number of bits (at least six) that holds n, cycle-walked back into the range (Black and Rogaway, "Ciphers with
// arbitrary finite domains", 2002). A function of (n, seed, stream) alone. An evaluation takes at most four passes
// through the network on average if n >= 16.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t stream) noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept { return n_; }
  // Precondition: i < size().
  [[nodiscard]] std::uint64_t operator()(std::uint64_t i) const noexcept;

  // Calls visit((*this)(i)) for each i in ascending order. Many times faster than evaluating each i by itself; takes
  // memory proportional to the square root of size().
  template <class Visit>
  void for_each(const Visit& visit) const;

 private:
  // The term that a round of the network adds: element round * 2^half_bits + right half.
  [[nodiscard]] std::vector<std::uint32_t> rounds_table() const;
  [[nodiscard]] std::uint64_t network(std::uint64_t x) const noexcept;

  std::uint64_t n_;
  Philox philox_;
  unsigned half_bits_;  // bits of each half
};

template <class Visit>
void Permutation::for_each(const Visit& visit) const {
  if (n_ < 2) {
    for (std::uint64_t i = 0; i < n_; ++i) visit(i);
    return;
  }
  const auto table = rounds_table();
  const std::uint64_t half = std::uint64_t{1} << half_bits_;
  for (std::uint64_t i = 0; i < n_; ++i) {
    std::uint64_t x = i;
    do {
      std::uint64_t left = x >> half_bits_, right = x & (half - 1);
      for (std::size_t round = 0; round < table.size(); round += half) {
        const std::uint64_t mixed = left ^ table[round + right];
        left = right;
        right = mixed;
      }
      x = (left << half_bits_) | right;
    } while (x >= n_);
    visit(x);
  }
}

}  // namespace tessera::base

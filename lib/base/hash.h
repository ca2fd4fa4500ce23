// XXH3 (Yann Collet, xxHash 0.8): fast hashes for integrity and comparison, not for secrets. The same bytes have the
// same hash on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera::base {

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

[[nodiscard]] std::uint64_t xxh3(std::span<const std::byte> bytes, std::uint64_t seed = 0);
[[nodiscard]] std::uint64_t xxh3(std::string_view text, std::uint64_t seed = 0);
[[nodiscard]] Hash128 xxh3_128(std::span<const std::byte> bytes, std::uint64_t seed = 0);

// Lower-case hexadecimal, most significant digit first: 16 or 32 digits.
[[nodiscard]] std::string hex(std::uint64_t hash);
[[nodiscard]] std::string hex(const Hash128& hash);

// Hashes bytes that come in pieces; the result is the hash of their concatenation. Move-only.
class Xxh3Stream {
 public:
  explicit Xxh3Stream(std::uint64_t seed = 0);
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  [[nodiscard]] std::uint64_t digest() const;  // of the bytes so far; update() may follow
  [[nodiscard]] Hash128 digest_128() const;

 private:
  struct FreeState {
    void operator()(void* state) const noexcept;
  };
  std::unique_ptr<void, FreeState> state_;  // XXH3_state_t
};

}  // namespace tessera::base

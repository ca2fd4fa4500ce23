#include "base/hash.h"

#include "base/error.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <new>

namespace tessera::base {
namespace {

XXH3_state_t* as_state(void* state) { return static_cast<XXH3_state_t*>(state); }

Hash128 to_hash128(const XXH128_hash_t& h) { return {h.high64, h.low64}; }

XXH3_state_t* new_state() {
  XXH3_state_t* const state = XXH3_createState();
  if (state == nullptr) throw std::bad_alloc();
  return state;
}

}  // namespace

std::uint64_t xxh3(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t xxh3(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

Hash128 xxh3_128(std::span<const std::byte> bytes, std::uint64_t seed) {
  return to_hash128(XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
}

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::string hex(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

void Xxh3Stream::FreeState::operator()(void* state) const noexcept { XXH3_freeState(as_state(state)); }

// The 64-bit and the 128-bit hash share reset and update in xxHash; only their digests differ.
Xxh3Stream::Xxh3Stream(std::uint64_t seed) : state_(new_state()) {
  XXH3_64bits_reset_withSeed(as_state(state_.get()), seed);
}

void Xxh3Stream::update(std::span<const std::byte> bytes) {
  expect(state_ != nullptr, "hash stream used after a move");
  XXH3_64bits_update(as_state(state_.get()), bytes.data(), bytes.size());
}

void Xxh3Stream::update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }

std::uint64_t Xxh3Stream::digest() const { return XXH3_64bits_digest(as_state(state_.get())); }

Hash128 Xxh3Stream::digest_128() const { return to_hash128(XXH3_128bits_digest(as_state(state_.get()))); }

}  // namespace tessera::base

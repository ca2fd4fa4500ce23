// If this failed, one build would refuse the checkpoints written by another.
#include "base/hash.h"
#include "support/catch.h"

using namespace tessera::base;

// Expected: the published values of XXH3 for an empty input (xxHash 0.8, tests/sanity_test_vectors).
TEST_CASE("the hash of nothing is XXH3's") {
  CHECK(hex(xxh3(std::string_view())) == "2d06800538d394c2");
  CHECK(hex(xxh3_128({})) == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("a seed changes the hash") {
  CHECK(xxh3("abc", 1) != xxh3("abc", 2));
  CHECK(xxh3("abc") == xxh3("abc", 0));
}

TEST_CASE("a stream in pieces equals the hash of the whole, in both widths") {
  std::string text;
  for (int i = 0; i < 5003; ++i) text += static_cast<char>(i * 31 % 251);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  for (const std::uint64_t seed : {0ULL, 7ULL}) {
    Xxh3Stream stream(seed);
    for (std::size_t at = 0, piece = 1; at < text.size(); at += piece, piece = piece * 3 % 1009 + 1) {
      stream.update(bytes.subspan(at, std::min(piece, text.size() - at)));
      piece = std::min(piece, text.size() - at);
    }
    CHECK(stream.digest() == xxh3(bytes, seed));
    CHECK(stream.digest_128() == xxh3_128(bytes, seed));
  }
}

TEST_CASE("hexadecimal keeps leading zeros") {
  CHECK(hex(std::uint64_t{0xAB}) == "00000000000000ab");
  CHECK(hex(Hash128{1, 2}) == "00000000000000010000000000000002");
}

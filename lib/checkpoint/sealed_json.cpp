#include "checkpoint/sealed_json.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"

namespace tessera::checkpoint {
namespace {

constexpr std::string_view before_hash = "\"hash\": \"";
constexpr std::string_view after_hash = "\"\n}\n";
constexpr std::size_t digits = 32;

std::string hash_of(std::string_view text) {
  return base::hex(base::xxh3_128(std::as_bytes(std::span(text.data(), text.size()))));
}

}  // namespace

std::string seal(std::string_view members) {
  std::string text = fmt::format("{{\n{},\n", members);
  const auto hash = hash_of(text);
  return text.append(before_hash).append(hash).append(after_hash);
}

std::string read_sealed(const base::Path& path, std::uint64_t limit) {
  auto text = base::read_file(path, limit);
  constexpr auto seal_bytes = before_hash.size() + digits + after_hash.size();
  const bool has_room = text.size() > seal_bytes;
  const auto sealed = std::string_view(text).substr(0, has_room ? text.size() - seal_bytes : 0);
  base::require(has_room && std::string_view(text).substr(sealed.size(), before_hash.size()) == before_hash &&
                    text.ends_with(after_hash),
                "{} does not end with its hash: it is cut, damaged or not of this format", path.string());
  const auto stored = std::string_view(text).substr(sealed.size() + before_hash.size(), digits);
  const auto found = hash_of(sealed);
  base::require(stored == found, "{} is damaged: its hash is {}, its content has {}", path.string(), stored, found);
  return text;
}

}  // namespace tessera::checkpoint

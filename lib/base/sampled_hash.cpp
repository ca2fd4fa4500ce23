#include "base/sampled_hash.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/hash.h"

namespace tessera::base {

std::uint64_t sampled_hash(const Path& path, std::uint64_t most_bytes) {
  constexpr std::uint64_t block_bytes = 4096;
  DiskWork work("reading", path.native());
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  require(!error, "cannot read {}: {}", path.string(), error.message());
  std::ifstream file(path, std::ios::binary);
  Xxh3Stream hash;
  hash.update(std::as_bytes(std::span(&size, 1)));
  const auto blocks = std::max<std::uint64_t>(2, std::min(size, most_bytes) / block_bytes);
  const bool is_whole = size <= std::max(most_bytes, 2 * block_bytes);
  std::string content(std::min(size, is_whole ? std::uint64_t{1} << 20 : block_bytes), '\0');
  std::uint64_t at = 0;
  for (std::uint64_t k = 0; is_whole ? at < size : k < blocks; ++k) {
    if (!is_whole) {
      at = static_cast<std::uint64_t>(static_cast<long double>(size - block_bytes) * static_cast<long double>(k) /
                                      static_cast<long double>(blocks - 1));
      file.seekg(static_cast<std::streamoff>(at));
    }
    const auto count = std::min<std::uint64_t>(content.size(), size - at);
    require(static_cast<bool>(file.read(content.data(), static_cast<std::streamsize>(count))), "cannot read {}: {}",
            path.string(), errno != 0 ? std::strerror(errno) : "it became shorter while it was read");
    hash.update(std::string_view(content).substr(0, count));
    at += count;
    work.has_gone_on();
  }
  return hash.digest();
}

}  // namespace tessera::base

#include "data/fingerprint.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/disk_work.h"

namespace tessera::data {
namespace {

constexpr std::uint64_t block_bytes = 4096;
constexpr std::uint64_t bytes_a_block = std::uint64_t{16} << 20;
constexpr std::uint64_t least_blocks = 4, most_blocks = 64;
constexpr std::uint64_t buffer_bytes = std::uint64_t{1} << 20;

void add_number(std::uint64_t number, base::Xxh3Stream& hash) { hash.update(std::as_bytes(std::span(&number, 1))); }

}  // namespace

void add_bytes(const base::ReadableFile& file, std::uint64_t begin, std::uint64_t end, base::Xxh3Stream& hash,
               base::DiskWork* work) {
  std::vector<std::byte> buffer(std::min(end - begin, buffer_bytes));
  while (begin < end) {
    const auto part = std::span(buffer).first(std::min(end - begin, buffer_bytes));
    file.read(begin, part);
    hash.update(part);
    begin += part.size();
    if (work != nullptr) work->has_gone_on();
  }
}

Fingerprint::Fingerprint(std::uint64_t whole_bytes) : bytes_left_(whole_bytes) {}

void Fingerprint::add(const std::string& path) {
  const base::ReadableFile file(path);
  base::DiskWork work("reading", path);
  const std::uint64_t size = file.size();
  const std::uint64_t blocks = std::clamp(size / bytes_a_block, least_blocks, most_blocks);
  add_number(size, hash_);
  if (size <= bytes_left_ || size <= blocks * block_bytes) {
    add_bytes(file, 0, size, hash_, &work);
    bytes_left_ -= std::min(bytes_left_, size);
    return;
  }
  bytes_left_ = 0;  // later files are sampled too, so that the sizes in order decide which files are read whole
  covers_all_ = false;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const std::uint64_t begin = (size - block_bytes) / (blocks - 1) * block;
    const std::uint64_t from = block + 1 == blocks ? size - block_bytes : begin;
    add_bytes(file, from, from + block_bytes, hash_, &work);
  }
}

void Fingerprint::add_whole(const std::string& path) {
  const base::ReadableFile file(path);
  base::DiskWork work("reading", path);
  add_number(file.size(), hash_);
  add_bytes(file, 0, file.size(), hash_, &work);
}

}  // namespace tessera::data

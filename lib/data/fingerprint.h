// Hashes that tell data apart by their bytes, whatever the names and places of their files.
#pragma once

#include <cstdint>
#include <string>

#include "base/disk_work.h"
#include "base/hash.h"
#include "base/readable_file.h"

namespace tessera::data {

// Made while files are opened, in order, so it must not read much: of the files that are added by `add` it covers all
// bytes until their sum exceeds a bound, and of each file beyond it the size and blocks of 4 KiB, evenly spread from
// its first bytes to its last: one for every 16 MiB, at least 4 and at most 64.
class Fingerprint {
 public:
  explicit Fingerprint(std::uint64_t whole_bytes = std::uint64_t{256} << 20);

  // Error(bad_input) if the file cannot be read.
  void add(const std::string& path);
  void add_whole(const std::string& path);  // a file that is read anyway

  [[nodiscard]] std::uint64_t value() const { return hash_.digest(); }
  [[nodiscard]] bool covers_all() const { return covers_all_; }  // every byte of every file

 private:
  base::Xxh3Stream hash_;
  std::uint64_t bytes_left_;
  bool covers_all_ = true;
};

// Bytes [begin, end) of a file. Error(bad_input) if it has become shorter. Each part is a sign of life of `work`, where
// somebody waits for this.
void add_bytes(const base::ReadableFile& file, std::uint64_t begin, std::uint64_t end, base::Xxh3Stream& hash,
               base::DiskWork* work = nullptr);

}  // namespace tessera::data

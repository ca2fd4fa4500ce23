// A hash that tells data apart by the content of their files, whatever their names and places.
#pragma once

#include <cstdint>
#include <string>

#include "base/disk_work.h"
#include "base/hash.h"
#include "base/readable_file.h"

namespace tessera::data {

// The fingerprint of files, added in order. Because a run computes it while it opens them, it does not read all of
// large files: `add` covers all bytes until the sum of sizes exceeds a bound. Of each file from then on it covers the
// size and blocks of 4 KiB spread evenly from the first byte to the last: one per 16 MiB, at least 4 and at most 64.
class Fingerprint {
 public:
  explicit Fingerprint(std::uint64_t whole_bytes = std::uint64_t{256} << 20);

  // Both throw Error(bad_input) if the file cannot be read. add_whole covers all bytes, for a file that the caller
  // reads whole anyway.
  void add(const std::string& path);
  void add_whole(const std::string& path);

  [[nodiscard]] std::uint64_t value() const { return hash_.digest(); }
  [[nodiscard]] bool covers_all() const { return covers_all_; }  // it covers every byte of every file

 private:
  base::Xxh3Stream hash_;
  std::uint64_t bytes_left_;
  bool covers_all_ = true;
};

// Adds bytes [begin, end) of a file to `hash`. Throws Error(bad_input) if the file became shorter. If `work` is not
// null, it gets a sign of life after each part.
void add_bytes(const base::ReadableFile& file, std::uint64_t begin, std::uint64_t end, base::Xxh3Stream& hash,
               base::DiskWork* work = nullptr);

}  // namespace tessera::data

// Maps the files of a corpus when they are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/file.h"

namespace tessera::data {

// Keeps only the files used last mapped, because a process may have some 65,000 maps (vm.max_map_count) and a corpus a
// million files. Thread-safe.
class MappedFiles {
 public:
  using Mapped = std::shared_ptr<const base::MappedFile>;

  // At most `most` files stay mapped, besides those that a caller still holds.
  explicit MappedFiles(std::size_t most = 1024);

  // Returns the file, which stays mapped as long as the result lives. Throws Error(bad_input) if it cannot be read, and
  // Error(rank_failed) if it does not have `size` bytes.
  [[nodiscard]] Mapped map(const std::string& path, std::uint64_t size, base::AccessPattern pattern);

 private:
  struct Entry {
    std::string path;
    Mapped file;
  };

  std::size_t most_;
  std::mutex mutex_;
  std::list<Entry> by_use_;                                                 // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> found_;  // by Entry::path
};

// Throws Error(rank_failed) if a file's size now is not the size that it had when it was first opened.
void require_unchanged(const std::string& path, std::uint64_t size, std::uint64_t size_now);

// Does the same with the file's present size on the disk. Call it after reading mapped bytes: if the file was cut, the
// lost bytes of its last page read as zeros.
void require_unchanged(const std::string& path, std::uint64_t size);

}  // namespace tessera::data

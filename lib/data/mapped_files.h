// The files of a corpus, mapped when they are used.
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

// A process has room for some 65,000 mappings (vm.max_map_count), a corpus may have a million files: so only the files
// used last stay mapped. Thread-safe.
class MappedFiles {
 public:
  using Mapped = std::shared_ptr<const base::MappedFile>;

  // `most` files stay mapped, besides those that a caller still holds.
  explicit MappedFiles(std::size_t most = 1024);

  // The file, mapped as long as the result lives. Error(bad_input) if it cannot be read; as require_unchanged if it has
  // other than `size` bytes.
  [[nodiscard]] Mapped map(const std::string& path, std::uint64_t size, base::AccessPattern pattern);

 private:
  struct Entry {
    std::string path;
    Mapped file;
  };

  std::size_t most_;
  std::mutex mutex_;
  std::list<Entry> by_use_;                                                 // the last one used is the first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> found_;  // by Entry::path
};

// Error(rank_failed) that a file has other than the bytes that it had when it was opened first.
void require_unchanged(const std::string& path, std::uint64_t size, std::uint64_t size_now);

// The same for what the file has now on the disk. For after a read of mapped bytes: of a file that was cut, those of
// its last page that are gone read as zeros.
void require_unchanged(const std::string& path, std::uint64_t size);

}  // namespace tessera::data

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

  // The file, mapped as long as the result lives. Error(bad_input) if it cannot be read, or has other than `size`
  // bytes: it has changed since it was opened first.
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

// Error(bad_input) that a file has other than the bytes that it had when it was opened.
void require_unchanged(const std::string& path, std::uint64_t size, std::uint64_t size_now);

}  // namespace tessera::data

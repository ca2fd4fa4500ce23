#include "data/mapped_files.h"

#include "base/error.h"

namespace tessera::data {

MappedFiles::MappedFiles(std::size_t most) : most_(most) {
  base::expect(most_ >= 1, "room for {} mapped files", most_);
}

MappedFiles::Mapped MappedFiles::map(const std::string& path, std::uint64_t size, base::AccessPattern pattern) {
  const std::lock_guard lock(mutex_);
  if (const auto known = found_.find(path); known != found_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, known->second);
    return known->second->file;
  }
  auto file = std::make_shared<const base::MappedFile>(path, pattern);
  require_unchanged(path, size, file->size());
  if (by_use_.size() == most_) {
    found_.erase(by_use_.back().path);
    by_use_.pop_back();
  }
  by_use_.push_front({path, file});
  found_.emplace(by_use_.front().path, by_use_.begin());
  return file;
}

void require_unchanged(const std::string& path, std::uint64_t size, std::uint64_t size_now) {
  base::require(size == size_now, "{} changed while it was in use: {} bytes, now {}", path, size, size_now);
}

}  // namespace tessera::data

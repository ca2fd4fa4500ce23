#include "data/mapped_files.h"

#include <filesystem>
#include <system_error>

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
  if (size == size_now) return;
  throw base::Error(
      base::ExitCode::rank_failed,
      fmt::format(
          "{} became {} while it was in use: it had {} bytes, now it has {}; leave it as it is until the run ends",
          path, size_now < size ? "shorter" : "longer", size, size_now));
}

void require_unchanged(const std::string& path, std::uint64_t size) {
  std::error_code error;
  const auto size_now = std::filesystem::file_size(path, error);
  if (!error) require_unchanged(path, size, size_now);  // a removed file keeps its content while it is mapped
}

}  // namespace tessera::data

// Reads a file by parts. Defined in file.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace tessera::base {

// A file open for reading by parts, without a memory map: if it is cut meanwhile, read() throws instead of raising a
// signal. Move-only. Thread-safe.
class ReadableFile {
 public:
  explicit ReadableFile(const std::filesystem::path& path);
  ~ReadableFile();
  ReadableFile(ReadableFile&& other) noexcept;
  ReadableFile& operator=(ReadableFile&&) = delete;

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }  // when it was opened
  // Fills `bytes` with the content from `offset` on. Throws Error(bad_input) if the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace tessera::base

// Files. Tessera writes through a FileSystem, so that a test can wrap the real one and make the n-th write fail. It
// reads small files whole (read_file) and large ones through a memory map (MappedFile) or by parts (readable_file.h).
// Every failure throws Error(bad_input) with path and reason: "cannot write out/a.json: No space left on device".
// A write beyond the limit on file sizes (ulimit -f) fails like one to a full disk (file_size_limit.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/watched_bytes.h"

namespace tessera::base {

using Path = std::filesystem::path;

// A file open for writing. Use it from one thread at a time.
// The destructor closes the file but reports no error: call close() to learn of it.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;  // writes all bytes, or throws
  virtual void sync() = 0;                                   // returns once the content is on the disk
  virtual void close() = 0;                                  // idempotent
};

// The operations that change the disk. Thread-safe. Wrap it to inject faults.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Opens an empty file for writing; empties one that exists.
  [[nodiscard]] virtual std::unique_ptr<WritableFile> create(const Path& path) = 0;
  // Opens a file to write at its end; creates it if absent.
  [[nodiscard]] virtual std::unique_ptr<WritableFile> open_for_append(const Path& path) = 0;
  virtual void rename(const Path& from, const Path& to) = 0;  // replaces `to`; atomic within one file system
  // Swaps two existing names: atomically where the file system can, otherwise by three renames.
  virtual void exchange(const Path& a, const Path& b) = 0;
  virtual void remove(const Path& path) = 0;       // a file or a whole folder; no error if absent
  virtual void make_folder(const Path& path) = 0;  // with its parents; no error if it exists
  virtual void sync_folder(const Path& path) = 0;  // makes renames inside it durable
};

// Swaps two names by three renames, for file systems without an atomic swap. In between, `b` is named set_aside(b).
void exchange_by_renames(const Path& a, const Path& b, FileSystem& files);
[[nodiscard]] Path set_aside(const Path& path);  // "b.old"

// The machine's own file system. Lives as long as the process.
[[nodiscard]] FileSystem& posix_file_system();

// Returns the whole content of a file. Error if it is absent, no regular file, or longer than `max_bytes`.
[[nodiscard]] std::string read_file(const Path& path, std::uint64_t max_bytes = 1ULL << 30);

// Creates the file (or empties it), writes `content` and syncs it. Its name is durable only once its folder is synced.
void write_synced(const Path& path, std::string_view content, FileSystem& files = posix_file_system());

// Replaces the file's content in one step: when it returns, the file holds exactly `content`, also after a power cut.
// If the write or the rename fails, the old file is untouched and the temporary one (`<path>.tmp`) is removed. If the
// sync of the folder fails, the new content is in place but not yet durable. Only one writer per path at a time.
void write_file_atomically(const Path& path, std::string_view content, FileSystem& files = posix_file_system());

// Makes the folder and its missing parents; their names are durable when it returns.
void make_folder(const Path& path, FileSystem& files = posix_file_system());

// The order in which a mapped file will be read: a hint for read-ahead.
enum class AccessPattern { normal, sequential, random };

// A file mapped read-only into memory. Move-only; the bytes live as long as the object. An empty file has no bytes.
// If the file is cut meanwhile, reading a lost page ends the process with a message (watched_bytes.h).
class MappedFile {
 public:
  explicit MappedFile(const Path& path, AccessPattern pattern = AccessPattern::normal);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string_view text() const noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] const Path& path() const noexcept { return path_; }

 private:
  Path path_;
  std::span<const std::byte> bytes_;
  WatchedBytes watched_;
};

}  // namespace tessera::base

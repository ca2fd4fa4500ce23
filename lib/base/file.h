// Files. Everything that Tessera writes goes through a FileSystem, so that a test can wrap the real one and make the
// n-th write fail; reading is by whole small files or by memory map.
// Every failure is an Error(bad_input) with path and reason: "cannot write out/a.json: No space left on device".
// A limit on the size of files (ulimit -f) fails a write as a full disk does: SIGXFSZ is ignored.
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

// A file open for writing, from its start or its end. One thread at a time.
// The destructor closes without reporting: call close() to learn of errors.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void write(std::span<const std::byte> bytes) = 0;  // all of it, or throws
  virtual void sync() = 0;                                   // on disk when it returns
  virtual void close() = 0;                                  // idempotent
};

// The operations that change the disk. Thread-safe. Wrap it to inject faults.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Empty file, replacing what was there.
  [[nodiscard]] virtual std::unique_ptr<WritableFile> create(const Path& path) = 0;
  // Existing content is kept; made if absent.
  [[nodiscard]] virtual std::unique_ptr<WritableFile> open_for_append(const Path& path) = 0;
  virtual void rename(const Path& from, const Path& to) = 0;  // replaces `to`, atomic within a disk
  // Swaps two names that exist; atomic where the disk can do that, else by three renames.
  virtual void exchange(const Path& a, const Path& b) = 0;
  virtual void remove(const Path& path) = 0;       // file or whole folder; absent is fine
  virtual void make_folder(const Path& path) = 0;  // with its parents; existing is fine
  virtual void sync_folder(const Path& path) = 0;  // makes renames inside it durable
};

// Swaps two names by three renames: `b` has the name set_aside(b) in between. What exchange does where the disk cannot.
void exchange_by_renames(const Path& a, const Path& b, FileSystem& files);
[[nodiscard]] Path set_aside(const Path& path);  // "b.old"

// The machine's own file system. Lives as long as the process.
[[nodiscard]] FileSystem& posix_file_system();

// Whole content of a file. Error if it is absent, a folder, or longer than `max_bytes`.
[[nodiscard]] std::string read_file(const Path& path, std::uint64_t max_bytes = 1ULL << 30);

// A new file, or one of that name emptied, with its content on the disk; its name is durable once its folder is synced.
void write_synced(const Path& path, std::string_view content, FileSystem& files = posix_file_system());

// After it returns the file holds exactly `content`, also after a power cut; if it throws, the old file is untouched
// and the temporary one (`<path>.tmp`) is gone. Only one writer per path at a time.
void write_file_atomically(const Path& path, std::string_view content, FileSystem& files = posix_file_system());

// Makes the folder and its parents; their names are durable when it returns.
void make_folder(const Path& path, FileSystem& files = posix_file_system());

// How a mapped file is going to be read: a hint for read-ahead.
enum class AccessPattern { normal, sequential, random };

// A file mapped read-only into memory. Move-only; the bytes live as long as it does. An empty file has empty bytes.
// A file that becomes shorter meanwhile ends the process with a message when a lost page is read (watched_bytes.h).
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

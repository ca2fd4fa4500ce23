#include "base/file.h"

#include "base/disk_work.h"
#include "base/error.h"
#include "base/file_size_limit.h"
#include "base/readable_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

namespace tessera::base {
namespace {

[[noreturn]] void fail_errno(std::string_view action, const Path& path) {
  fail("cannot {} {}: {}", action, path.string(), std::strerror(errno));
}

// Closes its descriptor when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Descriptor open_or_fail(const Path& path, int flags, std::string_view action) {
  const DiskWork work("opening", path.native());
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) fail_errno(action, path);
  return Descriptor(fd);
}

// Opens a regular file for reading and tells its size.
Descriptor open_to_read(const Path& path, std::uint64_t& size) {
  Descriptor fd = open_or_fail(path, O_RDONLY, "read");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) fail_errno("read", path);
  require(!S_ISDIR(status.st_mode), "cannot read {}: it is a folder", path.string());
  require(S_ISREG(status.st_mode), "cannot read {}: it is not a regular file", path.string());
  size = static_cast<std::uint64_t>(status.st_size);
  return fd;
}

int advice_of(AccessPattern pattern) {
  switch (pattern) {
    case AccessPattern::sequential: return MADV_SEQUENTIAL;
    case AccessPattern::random: return MADV_RANDOM;
    case AccessPattern::normal: break;
  }
  return MADV_NORMAL;
}

class PosixFile final : public WritableFile {
 public:
  PosixFile(Path path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  void write(std::span<const std::byte> bytes) override {
    expect(fd_.get() >= 0, "write to {} after close", path_.string());
    DiskWork work("writing", path_.native());
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail_errno("write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      resting_ += n;
      work.has_gone_on();
    }
    if (resting_ >= resting_limit) start_writing();
  }
  void sync() override {
    const DiskWork work("sync", path_.native());
    if (::fsync(fd_.get()) != 0) fail_errno("write", path_);
  }
  void close() override {
    // The descriptor is gone even if close reports an error (a network disk does so when it is full).
    const DiskWork work("closing", path_.native());
    const int fd = fd_.release();
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) fail_errno("write", path_);
  }

 private:
  static constexpr off_t resting_limit = 16 << 20;

  // Starts writing the bytes since the last call to the disk, so that sync() has less to wait for. A hint.
  void start_writing() {
    const auto end = ::lseek(fd_.get(), 0, SEEK_CUR);
    ::sync_file_range(fd_.get(), end - resting_, resting_, SYNC_FILE_RANGE_WRITE);
    resting_ = 0;
  }

  Path path_;
  Descriptor fd_;
  off_t resting_ = 0;  // bytes in the page cache since the last start_writing()
};

// Removes a file or a folder entry by entry: each entry is a sign of life.
void remove_tree(const Path& path, std::error_code& error) {
  namespace fs = std::filesystem;
  const auto kind = fs::symlink_status(path, error).type();
  if (kind == fs::file_type::not_found) return error.clear();
  if (kind == fs::file_type::directory && !error) {
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      remove_tree(entry->path(), error);
      if (error) return;
    }
  }
  if (error) return;
  const DiskWork work("removal", path.native());
  fs::remove(path, error);
}

class PosixFileSystem final : public FileSystem {
 public:
  PosixFileSystem() { let_writes_fail_at_limit(); }
  std::unique_ptr<WritableFile> create(const Path& path) override {
    return std::make_unique<PosixFile>(path, open_or_fail(path, O_WRONLY | O_CREAT | O_TRUNC, "create"));
  }
  std::unique_ptr<WritableFile> open_for_append(const Path& path) override {
    return std::make_unique<PosixFile>(path, open_or_fail(path, O_WRONLY | O_CREAT | O_APPEND, "write"));
  }
  void rename(const Path& from, const Path& to) override {
    const DiskWork work("renaming", from.native());
    if (::rename(from.c_str(), to.c_str()) != 0)
      fail("cannot rename {} to {}: {}", from.string(), to.string(), std::strerror(errno));
  }
  void exchange(const Path& a, const Path& b) override {
    const DiskWork work("renaming", a.native());
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
    if (errno != EINVAL && errno != ENOSYS)
      fail("cannot exchange {} and {}: {}", a.string(), b.string(), std::strerror(errno));
    exchange_by_renames(a, b, *this);
  }
  void remove(const Path& path) override {
    std::error_code error;
    remove_tree(path, error);
    require(!error, "cannot remove {}: {}", path.string(), error.message());
  }
  void make_folder(const Path& path) override {
    const DiskWork work("making", path.native());
    std::error_code error;
    std::filesystem::create_directories(path, error);
    require(!error, "cannot make folder {}: {}", path.string(), error.message());
    require(std::filesystem::is_directory(path), "cannot make folder {}: a file has that name", path.string());
  }
  void sync_folder(const Path& path) override {
    const Descriptor fd = open_or_fail(path.empty() ? Path(".") : path, O_RDONLY | O_DIRECTORY, "sync folder");
    const DiskWork work("sync", path.native());
    // EINVAL: the file system cannot sync folders.
    if (::fsync(fd.get()) != 0 && errno != EINVAL) fail_errno("sync folder", path);
  }
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Path set_aside(const Path& path) { return path.string() + ".old"; }

void exchange_by_renames(const Path& a, const Path& b, FileSystem& files) {
  files.rename(b, set_aside(b));
  files.rename(a, b);
  files.rename(set_aside(b), a);
}

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

ReadableFile::ReadableFile(const Path& path) : path_(path) { descriptor_ = open_to_read(path, size_).release(); }

ReadableFile::~ReadableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ReadableFile::ReadableFile(ReadableFile&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), descriptor_(std::exchange(other.descriptor_, -1)) {}

void ReadableFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("read", path_);
    require(n > 0, "cannot read {}: it became shorter while it was read", path_.string());
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

std::string read_file(const Path& path, std::uint64_t max_bytes) {
  const ReadableFile file(path);
  require(file.size() <= max_bytes, "cannot read {}: {} bytes, at most {} are expected", path.string(), file.size(),
          max_bytes);
  const DiskWork work("reading", path.native());
  std::string content(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(content)));
  return content;
}

void write_synced(const Path& path, std::string_view content, FileSystem& files) {
  const std::unique_ptr<WritableFile> file = files.create(path);
  file->write(bytes_of(content));
  file->sync();
  file->close();
}

void write_file_atomically(const Path& path, std::string_view content, FileSystem& files) {
  const Path temporary = path.string() + ".tmp";
  try {
    write_synced(temporary, content, files);
    files.rename(temporary, path);
  } catch (const std::exception&) {
    std::error_code ignored;  // the first error is the one to report
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  files.sync_folder(path.parent_path());
}

void make_folder(const Path& path, FileSystem& files) {
  std::vector<Path> missing;
  std::error_code ignored;
  for (Path at = path; !at.empty() && !std::filesystem::exists(at, ignored); at = at.parent_path())
    missing.push_back(at);
  files.make_folder(path);
  for (const auto& made : missing) files.sync_folder(made.parent_path());
}

MappedFile::MappedFile(const Path& path, AccessPattern pattern) : path_(path) {
  std::uint64_t size = 0;
  const Descriptor fd = open_to_read(path, size);
  if (size == 0) return;  // mmap refuses a length of zero
  void* const start = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (start == MAP_FAILED) fail_errno("map", path);
  ::madvise(start, size, advice_of(pattern));
  bytes_ = {static_cast<const std::byte*>(start), size};
  watched_ = WatchedBytes(bytes_, path.string());
}

MappedFile::~MappedFile() {
  watched_ = {};
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})), watched_(std::move(other.watched_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(watched_, other.watched_);
  return *this;
}

std::string_view MappedFile::text() const noexcept {
  return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
}

}  // namespace tessera::base

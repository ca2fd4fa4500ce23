#include "checkpoint/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/disk_work.h"
#include "base/error.h"
#include "base/log.h"

namespace tessera::checkpoint {
namespace {

constexpr const char* lock_name = ".lock";
constexpr std::uint64_t text_limit = 4096;
// A lock file has the line "process 4711 on node1 since 2025-03-01T12:00:05Z", a line with the machine and, on a file
// system without locks, the line "this file is the lock".
constexpr std::string_view process_word = "process ";
constexpr std::string_view being_there = "\nthis file is the lock";

std::string reason(int error) { return std::strerror(error); }

// Identifies the running kernel and the namespace of process numbers, which differ after a restart and in another
// container. Empty if they cannot be read.
std::string machine() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> numbers{};
  const auto length = ::readlink("/proc/self/ns/pid", numbers.data(), numbers.size());
  if (boot.empty() || length <= 0) return {};
  return fmt::format("boot {}, {}", boot, std::string_view(numbers.data(), static_cast<std::size_t>(length)));
}

std::string own_text() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}{} on {} since {}\n{}", process_word, ::getpid(), host.data(), base::utc_time(), machine());
}

std::string content_of(int descriptor) {
  std::array<char, text_limit> text{};
  const auto length = ::pread(descriptor, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0))};
}

std::string holder_in(const std::string& text) {
  return text.empty() ? "which does not say more yet" : text.substr(0, text.find('\n'));
}

// Returns whether the process that a lock names ran on this machine and has ended. False for any other machine, where
// that cannot be known.
bool has_ended(std::string_view text) {
  if (!text.starts_with(process_word)) return false;
  const auto line = text.find('\n');
  const auto here = machine();
  if (here.empty() || line == std::string_view::npos || !text.substr(line + 1).starts_with(here)) return false;
  pid_t process = 0;
  const auto [end, error] = std::from_chars(text.data() + process_word.size(), text.data() + line, process);
  return error == std::errc{} && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

bool holds_by_being_there(std::string_view text) { return text.find(being_there) != std::string_view::npos; }

// Returns whether the open file still has that name: its last holder may have removed it.
bool is_named(int descriptor, const base::Path& path) {
  struct stat by_name {
  }, opened{};
  return ::stat(path.c_str(), &by_name) == 0 && ::fstat(descriptor, &opened) == 0 && by_name.st_ino == opened.st_ino &&
         by_name.st_dev == opened.st_dev;
}

// Returns whether the error is that of a file system without locks: FUSE, some network disks, NFS without its lock
// service.
bool means_no_locks(int error) { return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK; }

// Removes the lock of a process that has ended. Renames it to a name of its own first, so that of two runs that do this
// at the same time neither removes the lock that the other has made since.
void remove_ended(const base::Path& path, const std::string& text) {
  const base::Path own = fmt::format("{}.{}", path.string(), ::getpid());
  if (::rename(path.c_str(), own.c_str()) != 0) return;
  std::ifstream file(own);
  const std::string taken((std::istreambuf_iterator<char>(file)), {});
  if (taken == text)
    base::log_warning("{} was left behind by another run ({}), which has ended; it is removed", path.string(),
                      holder_in(text));
  else if (::link(own.c_str(), path.c_str()) != 0 && errno != EEXIST)
    ::rename(own.c_str(), path.c_str());
  ::unlink(own.c_str());
}

[[noreturn]] void fail_in_use(const base::Path& output, const std::string& text) {
  base::fail("{} is in use by another run ({}); wait for its end, or give another train.checkpoint.output_dir",
             output.string(), holder_in(text));
}

// Throws for a lock file that is itself the lock, which does not show whether its process still runs.
[[noreturn]] void fail_for_file(const base::Path& output, const base::Path& path, const std::string& text) {
  base::fail(
      "{} is in use by another run ({}), or was when that run was killed: its file system has no locks that end with a "
      "process. Wait for its end, or give another train.checkpoint.output_dir; if it has ended, remove {}",
      output.string(), holder_in(text), path.string());
}

}  // namespace

int FolderLock::flock_call(int descriptor) { return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }

FolderLock::FolderLock(const base::Path& output, LockCall lock) : path_(output / lock_name), text_(own_text()) {
  const base::DiskWork work("locking", path_.native());
  while (!take(output, lock)) {
  }
  write_text();
}

// Returns false if the file was removed meanwhile; the caller then tries again.
bool FolderLock::take(const base::Path& output, LockCall lock) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const bool is_new = descriptor_ >= 0;
  if (!is_new && errno == EEXIST) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor_ < 0 && errno == ENOENT) return false;
  }
  base::require(descriptor_ >= 0, "cannot create {}: {}", path_.string(), reason(errno));
  const int error = lock(descriptor_);
  const auto text = is_new ? std::string() : content_of(descriptor_);
  const bool has_no_locks = means_no_locks(error);
  if (error == 0 && !is_named(descriptor_, path_)) return let_go();
  if (error != 0 && !has_no_locks) {
    let_go();
    base::require(error == EWOULDBLOCK, "cannot lock {}: {}", path_.string(), reason(error));
    fail_in_use(output, text);
  }
  if (holds_by_being_there(text) || (has_no_locks && !is_new)) {
    let_go();
    if (!has_ended(text)) fail_for_file(output, path_, text);
    remove_ended(path_, text);
    return false;
  }
  if (has_no_locks) hold_by_being_there(output, error);
  return true;
}

bool FolderLock::let_go() {
  ::close(std::exchange(descriptor_, -1));
  return false;
}

void FolderLock::hold_by_being_there(const base::Path& output, int error) {
  text_ += being_there;
  base::log_warning(
      "the file system of {} has no file locks ({}): its file {} keeps other runs out, and a run that is killed leaves "
      "it behind",
      output.string(), reason(error), lock_name);
}

void FolderLock::write_text() {
  if (::ftruncate(descriptor_, 0) == 0 &&
      ::pwrite(descriptor_, text_.data(), text_.size(), 0) == static_cast<ssize_t>(text_.size()))
    return;
  const auto why = reason(errno);
  ::unlink(path_.c_str());
  let_go();
  base::fail("cannot write {}: {}", path_.string(), why);
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : path_(std::move(other.path_)), text_(std::move(other.text_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  const base::DiskWork work("unlocking", path_.native());
  ::unlink(path_.c_str());
  let_go();
}

std::string lock_text(const base::Path& output) {
  std::error_code ignored;
  const auto path = output / lock_name;
  return std::filesystem::exists(path, ignored) ? base::read_file(path, text_limit) : std::string();
}

}  // namespace tessera::checkpoint

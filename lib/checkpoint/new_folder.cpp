#include "checkpoint/new_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/disk_work.h"
#include "base/error.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

bool is_there(const base::Path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool is_empty_folder(const base::Path& path) {
  std::error_code error;
  return fs::is_directory(path, error) && fs::is_empty(path, error) && !error;
}

void sync_content(const base::Path& file) {
  const base::DiskWork work("sync", file.native());
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  const auto why = is_synced ? "" : std::strerror(errno);
  if (descriptor >= 0) ::close(descriptor);
  base::require(is_synced, "cannot write {}: {}", file.string(), why);
}

// Syncs a file, or a folder with all files below it; the name of `path` itself is not durable yet.
void sync_all(const base::Path& path, base::FileSystem& files) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (fs::is_regular_file(status)) sync_content(path);
  if (!fs::is_directory(status)) return;
  for (const auto& entry : fs::directory_iterator(path)) sync_all(entry.path(), files);
  files.sync_folder(path);
}

void copy_or_link(const base::Path& from, const base::Path& to) {
  constexpr auto options = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
  const base::DiskWork work("copying", from.native());
  std::error_code error;
  fs::copy(from, to, options | fs::copy_options::create_hard_links, error);
  if (!error) return;
  fs::remove_all(to, error);
  fs::copy(from, to, options, error);
  base::require(!error, "cannot copy {} to {}: {}", from.string(), to.string(), error.message());
}

}  // namespace

base::Path folder_path(const base::Path& target) {
  std::error_code error;
  auto path = fs::weakly_canonical(fs::absolute(target), error);
  base::require(!error, "{}: {}", target.string(), error.message());
  if (!path.has_filename()) path = path.parent_path();  // "folder/"
  base::require(path.has_filename() && path.filename() != "." && path.filename() != "..", "\"{}\" names no new folder",
                target.string());
  return path;
}

base::Path unfinished_path(const base::Path& target) { return target.string() + ".tmp"; }

bool rename_into_place(const base::Path& unfinished, const base::Path& named, base::FileSystem& files) {
  files.sync_folder(unfinished);
  const bool replaces = is_there(named) && !is_empty_folder(named);
  if (replaces) {
    files.remove(base::set_aside(named));
    files.exchange(unfinished, named);
  } else {
    files.rename(unfinished, named);
  }
  return replaces;
}

base::Path move_aside(const base::Path& path, base::FileSystem& files) {
  for (int number = 1;; ++number) {
    auto aside = path.parent_path() / fmt::format("{}.{}{}", path.stem().string(), number, path.extension().string());
    if (is_there(aside)) continue;
    files.rename(path, aside);
    files.sync_folder(path.parent_path());
    return aside;
  }
}

NewFolder::NewFolder(base::Path target, ExistingFolder existing, base::FileSystem& files)
    : target_(std::move(target)), unfinished_(unfinished_path(target_)), existing_(existing), files_(files) {
  if (existing == ExistingFolder::refuse) {
    base::require(!is_there(target_) || is_empty_folder(target_),
                  "{} exists already; give the name of a new folder, or remove it", target_.string());
    base::require(!is_there(unfinished_),
                  "{} exists: another process is writing it, or was killed while it did; remove it if none is",
                  unfinished_.string());
  } else {
    files_.remove(unfinished_);
  }
  files_.make_folder(unfinished_);
}

NewFolder::~NewFolder() {
  if (is_published_) return;
  try {
    files_.remove(unfinished_);
  } catch (const base::Error&) {  // the user needs the error that led here, not this one
  }
}

std::vector<std::string> NewFolder::take_along(const std::set<std::string>& replaced) {
  std::vector<std::string> names;
  std::error_code error;
  if (!fs::is_directory(target_, error)) return names;
  for (fs::directory_iterator entries(target_, error); !error && entries != fs::directory_iterator();
       entries.increment(error)) {
    const auto name = entries->path().filename().string();
    if (replaced.contains(name) || is_there(unfinished_ / name)) continue;
    copy_or_link(entries->path(), unfinished_ / name);
    sync_all(unfinished_ / name, files_);
    names.push_back(name);
  }
  base::require(!error, "cannot read folder {}: {}", target_.string(), error.message());
  std::ranges::sort(names);
  return names;
}

void NewFolder::write(std::string_view name, std::string_view content) {
  base::write_synced(unfinished_ / name, content, files_);
}

void NewFolder::publish() {
  base::require(existing_ == ExistingFolder::replace || !is_there(target_) || is_empty_folder(target_),
                "{} was made by another process meanwhile", target_.string());
  const bool replaces = rename_into_place(unfinished_, target_, files_);
  is_published_ = true;
  files_.sync_folder(target_.parent_path());
  if (replaces) files_.remove(unfinished_);
}

}  // namespace tessera::checkpoint

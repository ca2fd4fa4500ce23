// Writes a folder that is whole or absent: fills it under another name beside its own, and renames it at the end.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace tessera::checkpoint {

// Renames the file or folder at `path` to "metrics.1.jsonl" (for metrics.jsonl), or with the next number that is free,
// and returns the new name.
base::Path move_aside(const base::Path& path, base::FileSystem& files);

enum class ExistingFolder : std::uint8_t {
  refuse,  // an existing target, unless it is empty, and an unfinished folder are errors
  replace  // both are replaced; for a caller that keeps other processes out
};

// Returns `target` as an absolute path without links. Error if it does not name a folder.
[[nodiscard]] base::Path folder_path(const base::Path& target);

// Returns the name under which `target` is filled: "<target>.tmp". Precondition: `target` is from folder_path.
[[nodiscard]] base::Path unfinished_path(const base::Path& target);

// Renames a folder whose files are on the disk to `named`; the caller syncs the folder above to make that durable. If
// something other than an empty folder had that name, swaps the names and returns true: the caller then removes
// `unfinished`.
[[nodiscard]] bool rename_into_place(const base::Path& unfinished, const base::Path& named, base::FileSystem& files);

class NewFolder {
 public:
  // Makes the unfinished folder and its missing parents. Error, naming the remedy, if `existing` refuses. Precondition:
  // `target` is from folder_path. `files` must outlive the object.
  NewFolder(base::Path target, ExistingFolder existing, base::FileSystem& files);
  // Removes the folder unless it was published. Does not report a failure: the name shows that the folder is
  // unfinished.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  [[nodiscard]] const base::Path& unfinished() const { return unfinished_; }
  // Takes over the entries of the folder that will be replaced, except for those named in `replaced` or written
  // already, as hard links, or as copies on a disk without links. Returns their names.
  [[nodiscard]] std::vector<std::string> take_along(const std::set<std::string>& replaced);
  // Writes a small file, which is on the disk when it returns.
  void write(std::string_view name, std::string_view content);
  // Gives the folder its name durably, then removes the folder that it replaces. Precondition: every file in it is on
  // the disk.
  void publish();

 private:
  base::Path target_, unfinished_;
  ExistingFolder existing_;
  base::FileSystem& files_;
  bool is_published_ = false;
};

}  // namespace tessera::checkpoint

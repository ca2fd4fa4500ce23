// A folder that is whole or absent: it is filled under another name beside its own, and gets its own at the end.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace tessera::checkpoint {

// Gives what stands at `path` a name of its own beside it, "metrics.1.jsonl" or the next number that is free, and
// returns that.
base::Path move_aside(const base::Path& path, base::FileSystem& files);

enum class ExistingFolder : std::uint8_t {
  refuse,  // unless it is empty
  replace  // also one that was left unfinished; for a caller that keeps all others out
};

// `target` as an absolute path without links. Error if it is not the name of a folder.
[[nodiscard]] base::Path folder_path(const base::Path& target);

// Where `target` is filled: "<target>.tmp". Precondition: from folder_path.
[[nodiscard]] base::Path unfinished_path(const base::Path& target);

// Gives a folder whose files are on the disk the name `named`; the caller makes that durable by a sync of the folder
// above. True if there was something of that name, other than an empty folder: it is then to be removed as
// `unfinished`.
[[nodiscard]] bool rename_into_place(const base::Path& unfinished, const base::Path& named, base::FileSystem& files);

class NewFolder {
 public:
  // Makes the unfinished folder and what is missing above it. Error, naming the way out, for what `existing` refuses.
  // Precondition: `target` from folder_path. `files` must outlive this.
  NewFolder(base::Path target, ExistingFolder existing, base::FileSystem& files);
  // Removes what was not published; a failure to do so is not reported, the folder's name says what it is.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  [[nodiscard]] const base::Path& unfinished() const { return unfinished_; }
  // Takes along what stands in the folder that will be replaced, but for the names of `replaced` and those that are
  // written already: as links to the same files, or copies on a disk that has none. Returns its names.
  [[nodiscard]] std::vector<std::string> take_along(const std::set<std::string>& replaced);
  // A small file, on the disk when it returns.
  void write(std::string_view name, std::string_view content);
  // Gives the folder its name, durably; what it replaces is removed after that. Precondition: every file in it is on
  // the disk.
  void publish();

 private:
  base::Path target_, unfinished_;
  ExistingFolder existing_;
  base::FileSystem& files_;
  bool is_published_ = false;
};

}  // namespace tessera::checkpoint

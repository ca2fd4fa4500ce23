// One run at a time in an output folder: output/.lock. Errors are Error(bad_input), with path and reason.
#pragma once

#include <string>

#include "base/file.h"

namespace tessera::checkpoint {

// Keeps other runs out of an output folder for as long as it lives. The file names the process and its host; the last
// one to use it removes it.
//
// It is a lock of the file system's (flock), which ends with the process however that ends. Where the file system has
// none, which is told, the file itself is the lock: who creates it has it. What a killed run leaves of that kind is
// removed by the next run on the same machine; on another one, which cannot see whether that process still runs, the
// error says what to remove.
class FolderLock {
 public:
  // Locks an open file and does not wait for it: 0, or why not (an errno). The default is flock; others are for tests.
  using LockCall = int (*)(int descriptor);
  [[nodiscard]] static int flock_call(int descriptor);

  // `output` must be there. Error if a run holds it, naming that run, or if it cannot be locked.
  explicit FolderLock(const base::Path& output, LockCall lock = flock_call);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

  // What the file says: no other lock says the same.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  [[nodiscard]] bool take(const base::Path& output, LockCall lock);
  bool let_go();  // false
  void hold_by_being_there(const base::Path& output, int error);
  void write_text();

  base::Path path_;
  std::string text_;
  int descriptor_ = -1;
};

// What the lock of `output` says, as this process sees the folder; empty if there is none.
[[nodiscard]] std::string lock_text(const base::Path& output);

}  // namespace tessera::checkpoint

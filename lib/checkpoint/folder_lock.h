// The lock of an output folder, output/.lock: only one run at a time may write there. All errors are Error(bad_input),
// with path and reason.
#pragma once

#include <string>

#include "base/file.h"

namespace tessera::checkpoint {

// Keeps other runs out of an output folder for as long as the object lives. The lock file names the process and its
// host; the holder removes it.
//
// The lock is the file system's (flock), which ends with the process, however that ends. On a file system without locks
// it warns, and the file itself is the lock: the run that creates it holds it. If that run is killed, the next run on
// the same machine removes the file; a run on another machine cannot tell whether the process still runs, so its error
// says which file to remove.
class FolderLock {
 public:
  // Locks an open file without waiting. Returns 0, or an errno. The default is flock; tests use others.
  using LockCall = int (*)(int descriptor);
  [[nodiscard]] static int flock_call(int descriptor);

  // Precondition: `output` exists. Error if another run holds the lock, naming that run, or if locking fails.
  explicit FolderLock(const base::Path& output, LockCall lock = flock_call);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

  // The content of the lock file, which no other lock has.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  [[nodiscard]] bool take(const base::Path& output, LockCall lock);
  bool let_go();  // returns false
  void hold_by_being_there(const base::Path& output, int error);
  void write_text();

  base::Path path_;
  std::string text_;
  int descriptor_ = -1;
};

// Returns the content of the lock file that this process finds in `output`; empty if there is none.
[[nodiscard]] std::string lock_text(const base::Path& output);

}  // namespace tessera::checkpoint

// Disks that fail, for tests of the files that remain after a failed call or a power cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace tessera::test {

enum class FileCall : std::uint8_t {
  create,
  open_for_append,
  write,
  sync,
  close,
  rename,
  exchange,
  remove,
  make_folder,
  sync_folder
};

// Throws the error that base/file.h throws for this call: "cannot write out/a: No space left on device".
[[noreturn]] void fail_like_the_disk(FileCall call, const base::Path& path, int error);

// The real file system behind a hook, which may throw in place of a call, or do something else. Syncs reach the hook
// but not the disk: the files that a process leaves behind do not depend on them.
class FaultyFiles : public base::FileSystem {
 public:
  // Runs before each call, and in the middle of a write, after half of its bytes. Runs for one thread at a time.
  using Hook = std::function<void(FileCall, const base::Path&)>;
  explicit FaultyFiles(Hook hook) : hook_(std::move(hook)) {}

  [[nodiscard]] std::unique_ptr<base::WritableFile> create(const base::Path& path) override;
  [[nodiscard]] std::unique_ptr<base::WritableFile> open_for_append(const base::Path& path) override;
  void rename(const base::Path& from, const base::Path& to) override;
  void exchange(const base::Path& a, const base::Path& b) override;
  void remove(const base::Path& path) override;
  void make_folder(const base::Path& path) override;
  void sync_folder(const base::Path& path) override;

 private:
  class File;
  void call(FileCall call, const base::Path& path);

  std::mutex mutex_;
  Hook hook_;
};

// A hook that counts calls and makes the n-th from now (counted from 0) fail.
class FailingCall {
 public:
  enum class Lasts : std::uint8_t {
    once,
    // Like a full disk: from then on whatever needs room fails; removing, renaming and closing work.
    until_repaired
  };
  void arm(std::int64_t nth, int error, Lasts lasts);
  void repair();
  [[nodiscard]] bool has_failed() const { return failed_ > 0; }

  // The hook.
  void operator()(FileCall call, const base::Path& path);

 private:
  std::int64_t left_ = -1;  // -1: none is to fail
  std::int64_t failed_ = 0;
  int error_ = 0;
  Lasts lasts_ = Lasts::once;
};

// The real file system, with a record of each change below one folder. From the record it can build the disk as it may
// be after a power cut.
//
// Durable are the content of a file at its last sync and the names in a folder at its last sync. Of later changes there
// may be, per folder, the first changes of names, in their order, and, per file, the first bytes. A name may be durable
// while the content of its file is not.
class RecordedFiles : public base::FileSystem {
 public:
  // The folder exists and is empty. Calls of kind `unheard`, if one is given, are left out of the record, to show that
  // a test notices their absence.
  explicit RecordedFiles(base::Path root, std::optional<FileCall> unheard = std::nullopt);

  [[nodiscard]] std::unique_ptr<base::WritableFile> create(const base::Path& path) override;
  [[nodiscard]] std::unique_ptr<base::WritableFile> open_for_append(const base::Path& path) override;
  void rename(const base::Path& from, const base::Path& to) override;
  void exchange(const base::Path& a, const base::Path& b) override;
  void remove(const base::Path& path) override;
  void make_folder(const base::Path& path) override;
  void sync_folder(const base::Path& path) override;

  // Number of changes so far.
  [[nodiscard]] std::size_t size() const;

  // Chooses, for each file or folder, how much of what is not durable is there: a number from 0 to `most`.
  using Chosen = std::function<std::size_t(std::size_t most)>;
  // Makes the folder `target` and writes into it the disk after the first `changes` changes.
  void build_after_cut(std::size_t changes, const base::Path& target, const Chosen& chosen) const;
  // Returns a choice by number: 0 chooses nothing, 1 everything, any other number a random amount.
  [[nodiscard]] static Chosen choice(std::uint64_t number);

 private:
  class File;
  struct Change {
    FileCall call{};
    base::Path path, other;  // within the root
    std::string bytes;
    std::size_t file = 0;  // for write and sync: the number of the file, in order of opening
  };
  void record(Change change);
  [[nodiscard]] base::Path within(const base::Path& path) const;
  [[nodiscard]] std::unique_ptr<base::WritableFile> open(FileCall call, const base::Path& path,
                                                         std::unique_ptr<base::WritableFile> file);

  base::Path root_;
  std::optional<FileCall> unheard_;
  mutable std::mutex mutex_;
  std::vector<Change> changes_;
  std::size_t opened_ = 0;
};

}  // namespace tessera::test

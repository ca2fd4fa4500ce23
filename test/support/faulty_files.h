// Disks that fail, for tests of what is left behind: a call that fails, and a power cut.
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

// As base/file.h words it: "cannot write out/a: No space left on device".
[[noreturn]] void fail_like_the_disk(FileCall call, const base::Path& path, int error);

// The real file system behind a hook, which may throw in place of a call, or do something else. Syncs reach the hook
// and go no further: what a process leaves behind does not depend on them.
class FaultyFiles : public base::FileSystem {
 public:
  // Called before each call; of a write, after half of its bytes. Calls of several threads come one at a time.
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

// Counts calls, and makes the n-th from now (from 0) fail.
class FailingCall {
 public:
  enum class Lasts : std::uint8_t {
    once,
    // As on a full disk: whatever needs room fails from then on, while removing, renaming and closing work.
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

// The real file system, and a record of each change below one folder, from which the disk after a power cut is built.
//
// Durable are: of a file the content at its last sync, of a folder the names at its last sync. What came later may be
// there or not: of each folder the first changes of its names, in their order, of a file the first bytes. A name may be
// durable while the content of its file is not.
class RecordedFiles : public base::FileSystem {
 public:
  // The folder is there, and empty. Calls of kind `unheard`, if one is given, do not reach the disk of the record: to
  // see that a test would miss them.
  explicit RecordedFiles(base::Path root, std::optional<FileCall> unheard = std::nullopt);

  [[nodiscard]] std::unique_ptr<base::WritableFile> create(const base::Path& path) override;
  [[nodiscard]] std::unique_ptr<base::WritableFile> open_for_append(const base::Path& path) override;
  void rename(const base::Path& from, const base::Path& to) override;
  void exchange(const base::Path& a, const base::Path& b) override;
  void remove(const base::Path& path) override;
  void make_folder(const base::Path& path) override;
  void sync_folder(const base::Path& path) override;

  // Changes so far.
  [[nodiscard]] std::size_t size() const;

  // How much of what is not durable is there: from nothing to all, at a place's choice.
  using Chosen = std::function<std::size_t(std::size_t most)>;
  // Writes into `target`, which is made, the disk after the first `changes` of them.
  void build_after_cut(std::size_t changes, const base::Path& target, const Chosen& chosen) const;
  // Choices by number: 0 nothing of it, 1 all of it, else at random.
  [[nodiscard]] static Chosen choice(std::uint64_t number);

 private:
  class File;
  struct Change {
    FileCall call{};
    base::Path path, other;  // within the root
    std::string bytes;
    std::size_t file = 0;  // of write and sync: which one, by the number of its creation
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

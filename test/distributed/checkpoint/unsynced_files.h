// The real file system without syncs: for tests of the content of files, not of the time at which they are durable.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "base/file.h"

namespace tessera::test {

class UnsyncedFiles final : public base::FileSystem {
 public:
  std::unique_ptr<base::WritableFile> create(const base::Path& path) override {
    return std::make_unique<File>(real_.create(path));
  }
  std::unique_ptr<base::WritableFile> open_for_append(const base::Path& path) override {
    return std::make_unique<File>(real_.open_for_append(path));
  }
  void rename(const base::Path& from, const base::Path& to) override { real_.rename(from, to); }
  void exchange(const base::Path& a, const base::Path& b) override { real_.exchange(a, b); }
  void remove(const base::Path& path) override { real_.remove(path); }
  void make_folder(const base::Path& path) override { real_.make_folder(path); }
  void sync_folder(const base::Path&) override {}

 private:
  class File final : public base::WritableFile {
   public:
    explicit File(std::unique_ptr<base::WritableFile> file) : file_(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override { file_->write(bytes); }
    void sync() override {}
    void close() override { file_->close(); }

   private:
    std::unique_ptr<base::WritableFile> file_;
  };

  base::FileSystem& real_ = base::posix_file_system();
};

}  // namespace tessera::test

// A disk that fails once, for tests of what is left behind.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace tessera::test {

// The real file system, of which the n-th changing operation (from 0) fails, after half of its bytes if it is a write.
// Removing never fails.
class FailingFiles final : public base::FileSystem {
 public:
  explicit FailingFiles(int failing) : left_(failing) {}
  [[nodiscard]] bool has_failed() const { return left_ < 0; }

  std::unique_ptr<base::WritableFile> create(const base::Path& path) override {
    step("create");
    return std::make_unique<File>(*this, base::posix_file_system().create(path));
  }
  std::unique_ptr<base::WritableFile> open_for_append(const base::Path& path) override {
    step("append");
    return std::make_unique<File>(*this, base::posix_file_system().open_for_append(path));
  }
  void rename(const base::Path& from, const base::Path& to) override {
    step("rename");
    base::posix_file_system().rename(from, to);
  }
  void exchange(const base::Path& a, const base::Path& b) override {
    step("exchange");
    base::posix_file_system().exchange(a, b);
  }
  void remove(const base::Path& path) override { base::posix_file_system().remove(path); }
  void make_folder(const base::Path& path) override {
    step("make folder");
    base::posix_file_system().make_folder(path);
  }
  void sync_folder(const base::Path& path) override {
    step("sync folder");
    base::posix_file_system().sync_folder(path);
  }

 private:
  class File final : public base::WritableFile {
   public:
    File(FailingFiles& files, std::unique_ptr<base::WritableFile> file) : files_(files), file_(std::move(file)) {}
    void write(std::span<const std::byte> bytes) override {
      file_->write(bytes.first(bytes.size() / 2));
      files_.step("write");
      file_->write(bytes.subspan(bytes.size() / 2));
    }
    void sync() override {
      files_.step("sync");
      file_->sync();
    }
    void close() override {
      files_.step("close");
      file_->close();
    }

   private:
    FailingFiles& files_;
    std::unique_ptr<base::WritableFile> file_;
  };

  void step(const char* what) {
    if (left_-- == 0) base::fail("injected: {}", what);
  }
  int left_;
};

}  // namespace tessera::test

// If these fail, a failed write may damage the file that was there, or an error hides its path or reason.
#include "base/file.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

#include <functional>

using namespace tessera;
using base::Path;
using Catch::Matchers::ContainsSubstring;

namespace {

// The real file system, of which the n-th changing operation (from 0) fails.
class FailingFileSystem final : public base::FileSystem {
 public:
  explicit FailingFileSystem(int failing) : left_(failing) {}
  [[nodiscard]] bool failed() const { return left_ < 0; }

  std::unique_ptr<base::WritableFile> create(const Path& path) override {
    step("create");
    return std::make_unique<File>(*this, base::posix_file_system().create(path));
  }
  std::unique_ptr<base::WritableFile> open_for_append(const Path& path) override {
    step("append");
    return std::make_unique<File>(*this, base::posix_file_system().open_for_append(path));
  }
  void rename(const Path& from, const Path& to) override {
    step("rename");
    base::posix_file_system().rename(from, to);
  }
  void exchange(const Path& a, const Path& b) override {
    step("exchange");
    base::posix_file_system().exchange(a, b);
  }
  void remove(const Path& path) override { base::posix_file_system().remove(path); }
  void make_folder(const Path& path) override { base::posix_file_system().make_folder(path); }
  void sync_folder(const Path& path) override {
    step("sync folder");
    base::posix_file_system().sync_folder(path);
  }

 private:
  class File final : public base::WritableFile {
   public:
    File(FailingFileSystem& files, std::unique_ptr<base::WritableFile> file) : files_(files), file_(std::move(file)) {}
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
    FailingFileSystem& files_;
    std::unique_ptr<base::WritableFile> file_;
  };

  void step(const char* what) {
    if (left_-- == 0) base::fail("injected: {}", what);
  }
  int left_;
};

}  // namespace

TEST_CASE("an atomic write leaves the old or the new content, whichever step fails") {
  const test::TempFolder folder;
  const Path path = folder / "latest";
  int failures = 0;
  for (int step = 0;; ++step) {
    base::write_file_atomically(path, "old");
    FailingFileSystem files(step);
    const std::string error = test::error_of([&] { base::write_file_atomically(path, "the new one", files); });
    const std::string content = base::read_file(path);
    CHECK_FALSE(std::filesystem::exists(folder / "latest.tmp"));
    if (!files.failed()) {
      CHECK(content == "the new one");
      break;
    }
    ++failures;
    CHECK_THAT(error, ContainsSubstring("injected"));
    CHECK((content == "old" || content == "the new one"));
    if (error != "injected: sync folder") CHECK(content == "old");
  }
  CHECK(failures == 6);  // create, write, sync, close, rename, sync folder
}

TEST_CASE("reading names the path and the reason") {
  const test::TempFolder folder;
  CHECK_THAT(test::error_of([&] { (void)base::read_file(folder / "absent"); }),
             ContainsSubstring("absent") && ContainsSubstring("No such file"));
  CHECK_THAT(test::error_of([&] { (void)base::read_file(folder.path()); }), ContainsSubstring("it is a folder"));
  const Path path = folder.write("five", "12345");
  CHECK(base::read_file(path, 5) == "12345");
  CHECK_THAT(test::error_of([&] { (void)base::read_file(path, 4); }), ContainsSubstring("5 bytes, at most 4"));
  CHECK_THAT(test::error_of([] { (void)base::read_file("/dev/null"); }), ContainsSubstring("not a regular file"));
}

TEST_CASE("writing names the path and the reason") {
  const test::TempFolder folder;
  CHECK_THAT(test::error_of([&] { base::write_file_atomically(folder / "no/x", "y"); }),
             ContainsSubstring("no/x.tmp") && ContainsSubstring("No such file"));
  const auto file = base::posix_file_system().open_for_append("/dev/full");
  const std::byte one{1};
  CHECK_THAT(test::error_of([&] { file->write({&one, 1}); }), ContainsSubstring("/dev/full: No space left on device"));
  const Path path = folder.write("file", "x");
  CHECK_THAT(test::error_of([&] { base::make_folder(path); }), ContainsSubstring(path.string()));
}

TEST_CASE("an append file keeps what is there and adds whole lines") {
  const test::TempFolder folder;
  const Path path = folder.write("metrics.jsonl", "first\n");
  base::AppendFile file(path);
  file.write_line("second");
  CHECK(base::read_file(path) == "first\nsecond\n");
  file.write_line("");
  file.close();
  file.close();
  CHECK(base::read_file(path) == "first\nsecond\n\n");
}

TEST_CASE("a mapped file shows the bytes and survives a move") {
  const test::TempFolder folder;
  base::MappedFile a(folder.write("a", "abc"));
  base::MappedFile b(folder.write("b", ""));
  CHECK(a.text() == "abc");
  CHECK(b.size() == 0);
  b = std::move(a);
  CHECK(b.text() == "abc");
  const base::MappedFile c(std::move(b));
  CHECK(c.text() == "abc");
  CHECK(c.path().filename() == "a");
  CHECK_THAT(test::error_of([&] { base::MappedFile absent(folder / "none"); }), ContainsSubstring("No such file"));
}

TEST_CASE("folders are made with their parents and removed with their content") {
  const test::TempFolder folder;
  base::make_folder(folder / "a/b/c");
  base::make_folder(folder / "a/b/c");
  CHECK(std::filesystem::is_directory(folder / "a/b/c"));
  base::posix_file_system().remove(folder / "a");
  base::posix_file_system().remove(folder / "a");
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
}

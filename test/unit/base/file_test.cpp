// If this failed, a failed write would damage the file that was there, or an error would not name its path or reason.
#include "base/file.h"
#include "base/readable_file.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/faulty_files.h"
#include "support/heard_syncs.h"
#include "support/temp_folder.h"

#include <cerrno>
#include <set>
#include <span>
#include <vector>

using namespace tessera;
using base::Path;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("an atomic write leaves the old or the new content, whichever call fails") {
  const test::TempFolder folder;
  const Path path = folder / "latest";
  std::vector<test::FileCall> failed;
  for (int nth = 0;; ++nth) {
    base::write_file_atomically(path, "old");
    int left = nth;
    test::FaultyFiles files([&](test::FileCall call, const Path& at) {
      if (left-- != 0) return;
      failed.push_back(call);
      test::fail_like_the_disk(call, at, ENOSPC);
    });
    const std::string error = test::error_of([&] { base::write_file_atomically(path, "the new one", files); });
    const std::string content = base::read_file(path);
    CHECK_FALSE(std::filesystem::exists(folder / "latest.tmp"));
    if (left >= 0) {
      CHECK(content == "the new one");
      break;
    }
    CHECK_THAT(error, ContainsSubstring(folder.path().string()) && ContainsSubstring("No space left on device"));
    CHECK(content == (failed.back() == test::FileCall::sync_folder ? "the new one" : "old"));
  }
  using enum test::FileCall;
  CHECK(failed == std::vector{create, write, sync, close, rename, sync_folder});
}

TEST_CASE("an atomic write syncs the file before it gets its name, then the folder") {
  const test::TempFolder temporary;
  const Path folder = std::filesystem::canonical(temporary.path());
  const test::HeardSyncs heard;
  base::write_file_atomically(folder / "latest", "new");
  REQUIRE(heard.so_far() == std::vector<Path>{folder / "latest.tmp", folder});
  base::write_synced(folder / "shard", "numbers");
  CHECK(heard.so_far().back() == folder / "shard");
  const auto appended = base::posix_file_system().open_for_append(folder / "lines");
  appended->write({});
  CHECK(heard.so_far().size() == 3);
  appended->sync();
  CHECK(heard.so_far().back() == folder / "lines");
  base::make_folder(folder / "runs" / "first");
  CHECK(heard.so_far() ==
        std::vector<Path>{folder / "latest.tmp", folder, folder / "shard", folder / "lines", folder / "runs", folder});
}

// Returns the contents that `path` may have after a power cut at any point of `act`.
template <class Act>
std::set<std::string> contents_after_cuts(const std::string& name, const Act& act) {
  const test::TempFolder folder;
  base::make_folder(folder / "disk");
  test::RecordedFiles files(folder / "disk");
  base::write_file_atomically(folder / "disk" / name, "old", files);
  const auto before = files.size();
  act(folder / "disk" / name, files);
  std::set<std::string> contents;
  int cut = 0;
  for (auto changes = before; changes <= files.size(); ++changes)
    for (std::uint64_t choice = 0; choice < 30; ++choice) {
      const auto after = folder / std::to_string(cut++);
      files.build_after_cut(changes, after, test::RecordedFiles::choice(choice));
      contents.insert(std::filesystem::exists(after / name) ? base::read_file(after / name) : "absent");
    }
  return contents;
}

TEST_CASE("a power cut leaves the old or the new content of an atomic write, and anything of a plain one") {
  const auto atomic = contents_after_cuts("latest", [](const Path& path, base::FileSystem& files) {
    base::write_file_atomically(path, "the new one", files);
  });
  CHECK(atomic == std::set<std::string>{"old", "the new one"});
  const auto plain = contents_after_cuts("latest", [](const Path& path, base::FileSystem& files) {
    files.create(path)->write(std::as_bytes(std::span(std::string_view("the new one"))));
  });
  CHECK(plain.contains(""));
  CHECK(plain.size() > 3);
  const auto unsynced = contents_after_cuts("latest", [](const Path& path, base::FileSystem& files) {
    files.create(path.string() + ".tmp")->write(std::as_bytes(std::span(std::string_view("the new one"))));
    files.rename(path.string() + ".tmp", path);
  });
  CHECK(unsynced.contains(""));
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

TEST_CASE("a file is read by parts, and one that has become shorter is an error with its name") {
  const test::TempFolder folder;
  const Path path = folder.write("a", "abcdef");
  const base::ReadableFile file(path);
  CHECK(file.size() == 6);
  std::string part(3, ' ');
  file.read(2, std::as_writable_bytes(std::span(part)));
  CHECK(part == "cde");
  std::filesystem::resize_file(path, 4);
  CHECK_THAT(test::error_of([&] { file.read(2, std::as_writable_bytes(std::span(part))); }),
             ContainsSubstring("cannot read " + path.string() + ": it became shorter"));
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

TEST_CASE("a folder that was made, and each of its parents, is there after a power cut") {
  const test::TempFolder folder;
  base::make_folder(folder / "disk");
  test::RecordedFiles files(folder / "disk");
  base::make_folder(folder / "disk/a/b/c", files);
  files.build_after_cut(files.size(), folder / "after", test::RecordedFiles::choice(0));
  CHECK(std::filesystem::is_directory(folder / "after/a/b/c"));
}

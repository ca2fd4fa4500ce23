// If this failed, an interrupted conversion would leave a folder that looks complete.
#include <cerrno>
#include <functional>

#include "base/file.h"
#include "checkpoint/stored_checkpoint.h"
#include "support/catch.h"
#include "support/faulty_files.h"
#include "unit/checkpoint/converted_files.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;

// The calls of `action` on a disk whose n-th call fails, for every n, until none does. Before each `prepare`, after
// each `check(whether it failed)`.
int for_each_failing_call(const std::function<void()>& prepare, const std::function<void(base::FileSystem&)>& action,
                          const std::function<void(bool)>& check) {
  test::FailingCall failing;
  test::FaultyFiles disk([&](test::FileCall call, const base::Path& path) { failing(call, path); });
  int calls = 0;
  for (bool has_failed = true; has_failed; ++calls) {
    prepare();
    failing.arm(calls, ENOSPC, test::FailingCall::Lasts::once);
    const auto error = test::error_of([&] { action(disk); });
    has_failed = failing.has_failed();
    failing.repair();
    CAPTURE(error, calls);
    if (has_failed)
      CHECK_THAT(error, ContainsSubstring("No space left on device"));
    else
      CHECK(error == "no error");
    check(has_failed);
  }
  return calls;
}

TEST_CASE("whichever call of the disk fails, the new folder is whole or absent, and no half is left") {
  const ConvertedFiles files;
  files.write({.max_file_bytes = 2000});
  const auto good = read_tensors(files.out(), ElementType::F32);
  const auto calls = for_each_failing_call([&] { fs::remove_all(files.out()); },
                                           [&](base::FileSystem& disk) { files.write({.max_file_bytes = 2000}, disk); },
                                           [&](bool has_failed) {
                                             CHECK_FALSE(fs::exists(files.folder() / "out.tmp"));
                                             CHECK((has_failed || fs::exists(files.out())));
                                             if (fs::exists(files.out()))
                                               CHECK(read_tensors(files.out(), ElementType::F32) == good);
                                           });
  CHECK(calls > 60);
}

TEST_CASE("whichever call of the disk fails, a folder that is replaced is the old or the new one") {
  const ConvertedFiles files;
  files.write();
  const auto old_names = names_in(files.out());
  const auto good = read_tensors(files.out(), ElementType::F32);
  const auto calls = for_each_failing_call(
      [] {},
      [&](base::FileSystem& disk) {
        files.write({.max_file_bytes = 2000, .existing = ExistingFolder::replace, .own = names_in(files.out())}, disk);
      },
      [&](bool has_failed) {
        CHECK(read_tensors(files.out(), ElementType::F32) == good);
        if (!has_failed) CHECK_FALSE(fs::exists(files.folder() / "out.tmp"));
        // What was exchanged but is not removed is the older folder, whole.
        if (fs::exists(files.folder() / "out.tmp"))
          CHECK(read_tensors(files.folder() / "out.tmp", ElementType::F32) == good);
      });
  CHECK(calls > 60);
  CHECK(names_in(files.out()) != old_names);
}

TEST_CASE("whichever call of the disk fails, an imported checkpoint is whole or absent") {
  const ConvertedFiles files;
  const auto into = files.folder() / "imported";
  const auto calls = for_each_failing_call(
      [&] { fs::remove_all(into); },
      [&](base::FileSystem& disk) { import_huggingface(files.in(), into, {}, solo(), disk); },
      [&](bool has_failed) {
        CHECK_FALSE(fs::exists(files.folder() / "imported.tmp"));
        CHECK((has_failed || fs::exists(into)));
        if (fs::exists(into))
          CHECK(base::read_file(into / "manifest.json") == base::read_file(files.checkpoint() / "manifest.json"));
      });
  CHECK(calls > 30);
}

TEST_CASE("whenever the power fails, a folder that has its name is whole") {
  const ConvertedFiles files;
  const auto root = files.folder() / "disk", rebuilt = files.folder() / "rebuilt";
  fs::create_directories(root);
  test::RecordedFiles disk(root);
  write_huggingface(files.checkpoint(), root / "out", {.max_file_bytes = 4000}, solo(), disk);
  import_huggingface(files.in(), root / "ck", {}, solo(), disk);
  const auto good = read_tensors(root / "out", ElementType::F32);
  for (std::size_t changes = 0; changes <= disk.size(); ++changes)
    for (std::uint64_t number = 0; number < 4; ++number) {
      CAPTURE(changes, number);
      disk.build_after_cut(changes, rebuilt, test::RecordedFiles::choice(number));
      if (fs::exists(rebuilt / "out")) {
        CHECK(read_tensors(rebuilt / "out", ElementType::F32) == good);
        CHECK(names_in(rebuilt / "out") == names_in(root / "out"));
      }
      if (fs::exists(rebuilt / "ck")) CHECK(StoredCheckpoint(rebuilt / "ck").verify(0, 1) > 0);
      CHECK((changes < disk.size() || (fs::exists(rebuilt / "out") && fs::exists(rebuilt / "ck"))));
      fs::remove_all(rebuilt);
    }
}

}  // namespace
}  // namespace tessera::checkpoint

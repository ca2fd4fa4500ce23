// If this failed, a process that waits for a disk could not be told from one that hangs.
#include "base/disk_work.h"

#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "support/about.h"
#include "support/temp_folder.h"

namespace tessera::base {
namespace {

TEST_CASE("work in a file is told while it lasts, and each of its signs counts") {
  const auto before = disk_signs();
  CHECK_FALSE(before.is_at_work);
  CHECK(describe_disk_work().empty());
  const std::string a = "out/a", b = "out/b";
  {
    DiskWork first("sync", a);
    std::thread([&] {
      const DiskWork second("writing", b);
      CHECK(describe_disk_work() == "sync of out/a");
      first.has_gone_on();
      CHECK(describe_disk_work() == "writing of out/b");  // of which nothing has come for longer
    }).join();
    CHECK(disk_signs().is_at_work);
    CHECK(disk_signs().count == before.count + 4);
  }
  CHECK(disk_signs().count == before.count + 5);
  CHECK_FALSE(disk_signs().is_at_work);
}

TEST_CASE("whatever the machine's own file system does is told") {
  const test::TempFolder folder;
  auto& files = posix_file_system();
  auto count = disk_signs().count;
  const auto is_told = [&] { return disk_signs().count > std::exchange(count, disk_signs().count); };
  files.make_folder(folder / "a");
  CHECK(is_told());
  {
    const auto file = files.create(folder / "a/file");
    CHECK(is_told());
    file->write(std::as_bytes(std::span("content")));
    CHECK(is_told());
    file->sync();
    CHECK(is_told());
    file->close();
    CHECK(is_told());
  }
  CHECK_FALSE(read_file(folder / "a/file").empty());
  CHECK(is_told());
  CHECK(MappedFile(folder / "a/file").size() > 0);
  CHECK(is_told());
  files.rename(folder / "a/file", folder / "a/other");
  CHECK(is_told());
  files.sync_folder(folder / "a");
  CHECK(is_told());
  const auto removed = disk_signs().count;
  files.remove(folder / "a");
  CHECK(disk_signs().count >= removed + 4);  // of the file and of the folder
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
}

TEST_CASE("time in which a process did not run is not counted") {
  RunningTime time;
  CHECK(time.seconds() == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto awake = time.seconds();
  CHECK(awake >= 0.05);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // as long as if it had been suspended
  CHECK(time.seconds() == test::about(awake + 1).epsilon(1e-12));
}

}  // namespace
}  // namespace tessera::base

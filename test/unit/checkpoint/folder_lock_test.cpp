// If this failed, two runs would write into one folder, or a folder that no run uses would be refused.
#include "checkpoint/folder_lock.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "support/catch.h"
#include "support/child_process.h"
#include "support/error_of.h"
#include "support/temp_folder.h"

namespace tessera::checkpoint {
namespace {

using Catch::Matchers::ContainsSubstring;

// As file systems without locks answer.
int not_implemented(int /*descriptor*/) { return ENOSYS; }
int not_supported(int /*descriptor*/) { return EOPNOTSUPP; }
int no_lock_service(int /*descriptor*/) { return ENOLCK; }
int failing_disk(int /*descriptor*/) { return EIO; }

constexpr FolderLock::LockCall without_locks[] = {&not_implemented, &not_supported, &no_lock_service};

std::string refusal(const test::TempFolder& output, FolderLock::LockCall lock) {
  return test::error_of([&] { FolderLock refused(output.path(), lock); });
}

// A run that is killed while it holds the folder.
void lock_and_be_killed(const test::TempFolder& output, FolderLock::LockCall lock) {
  const auto end = test::run_in_child([&] {
    new FolderLock(output.path(), lock);
    return 0;
  });
  REQUIRE(end.code == 0);
  REQUIRE(std::filesystem::exists(output / ".lock"));
}

std::size_t entries(const test::TempFolder& output) {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator(output.path()), std::filesystem::directory_iterator()));
}

TEST_CASE("a folder is locked once at a time, with and without locks of the file system, and free afterwards") {
  for (const auto lock : {&FolderLock::flock_call, &not_implemented, &not_supported, &no_lock_service}) {
    const test::TempFolder output;
    {
      FolderLock first(output.path(), lock);
      CHECK(lock_text(output.path()) == first.text());
      CHECK_THAT(refusal(output, lock),
                 ContainsSubstring(output.path().string() + " is in use by another run (process " +
                                   std::to_string(::getpid()) + " on "));
      const FolderLock moved(std::move(first));
      CHECK_THAT(refusal(output, lock), ContainsSubstring("is in use by another run"));
    }
    CHECK(entries(output) == 0);
    const FolderLock second(output.path(), lock);
  }
}

TEST_CASE("a file system without locks is told as that, and not as another run") {
  for (const auto lock : without_locks) {
    const test::TempFolder output;
    const auto alone = test::run_in_child([&] {
      const FolderLock taken(output.path(), lock);
      return lock_text(output.path()) == taken.text() ? 0 : 1;
    });
    CHECK(alone.code == 0);
    CHECK_THAT(alone.err, ContainsSubstring(" warning the file system of " + output.path().string() +
                                            " has no file locks (" + std::strerror(lock(0)) + ")"));
  }
}

TEST_CASE("a lock that fails for another reason says that reason") {
  const test::TempFolder output;
  CHECK(refusal(output, &failing_disk) == "cannot lock " + (output / ".lock").string() + ": Input/output error");
  output.write(".lock", "process 1 on node1 since yesterday");
  CHECK(refusal(output, &failing_disk) == "cannot lock " + (output / ".lock").string() + ": Input/output error");
}

TEST_CASE("the lock of a run that was killed on this machine is taken over") {
  for (const auto lock : {&FolderLock::flock_call, &not_implemented}) {
    const test::TempFolder output;
    lock_and_be_killed(output, lock);
    const auto next = test::run_in_child([&] {
      const FolderLock taken(output.path(), lock);
      return entries(output) == 1 ? 0 : 1;
    });
    CHECK(next.code == 0);
    if (lock == &not_implemented)
      CHECK_THAT(next.err, ContainsSubstring(" warning " + (output / ".lock").string() +
                                             " was left behind by another run (process ") &&
                               ContainsSubstring("which has ended; it is removed"));
  }
}

TEST_CASE("the lock of a run elsewhere, or before this machine was started, is refused, with the file to remove") {
  const test::TempFolder output;
  lock_and_be_killed(output, &not_implemented);
  const auto own = lock_text(output.path());
  const auto boot = own.find("boot ") + 5, numbers = own.find("pid:[") + 5;
  REQUIRE(boot != std::string::npos + 5);
  auto other_boot = own, other_container = own;
  other_boot[boot] = own[boot] == '0' ? '1' : '0';
  other_container[numbers] = own[numbers] == '1' ? '2' : '1';
  // A run that is starting has written nothing yet.
  for (const auto& text : {other_boot, other_container, own.substr(0, own.find('\n')), std::string()}) {
    CAPTURE(text);
    output.write(".lock", text);
    CHECK_THAT(refusal(output, &not_implemented),
               ContainsSubstring("is in use by another run (") &&
                   ContainsSubstring("or was when that run was killed") &&
                   ContainsSubstring("if it has ended, remove " + (output / ".lock").string()));
    CHECK(lock_text(output.path()) == text);
  }
}

TEST_CASE("of two machines one of which has locks of the file system, each keeps the other out") {
  for (const bool has_locks : {false, true}) {
    const test::TempFolder output;
    const FolderLock first(output.path(), has_locks ? &FolderLock::flock_call : &not_supported);
    CHECK_THAT(refusal(output, has_locks ? &not_supported : &FolderLock::flock_call),
               ContainsSubstring("is in use by another run (process "));
    CHECK(lock_text(output.path()) == first.text());
  }
}

}  // namespace
}  // namespace tessera::checkpoint

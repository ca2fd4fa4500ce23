#include "support/heard_syncs.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "base/error.h"

namespace tessera::test {
namespace {

struct Heard {
  std::mutex mutex;
  bool listens = false;
  std::thread::id listener;
  bool heard_another = false;
  std::vector<std::filesystem::path> paths;
};

Heard& heard() {
  static Heard the_heard;
  return the_heard;
}

int note_and_do(long call, int file) {
  {
    const std::lock_guard lock(heard().mutex);
    std::error_code error;
    auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file), error);
    if (heard().listens && !error) {
      heard().paths.push_back(std::move(path));
      heard().heard_another |= std::this_thread::get_id() != heard().listener;
    }
  }
  return static_cast<int>(::syscall(call, file));
}

}  // namespace

HeardSyncs::HeardSyncs() {
  const std::lock_guard lock(heard().mutex);
  base::expect(!heard().listens, "somebody listens already");
  heard().listens = true;
  heard().listener = std::this_thread::get_id();
  heard().heard_another = false;
  heard().paths.clear();
}

HeardSyncs::~HeardSyncs() {
  const std::lock_guard lock(heard().mutex);
  heard().listens = false;
}

std::vector<std::filesystem::path> HeardSyncs::so_far() const {
  const std::lock_guard lock(heard().mutex);
  return heard().paths;
}

bool HeardSyncs::has_heard_another_thread() const {
  const std::lock_guard lock(heard().mutex);
  return heard().heard_another;
}

}  // namespace tessera::test

// They replace those of the C library.
extern "C" int fsync(int file) { return tessera::test::note_and_do(SYS_fsync, file); }
extern "C" int fdatasync(int file) { return tessera::test::note_and_do(SYS_fdatasync, file); }

// A slow disk for a program that preloads this library (LD_PRELOAD):
//   TESSERA_TEST_SLOW_DISK="CALL RANK SECONDS PART"
// delays the first call of CALL (fsync, open, remove) by rank RANK, on a path that contains PART, by SECONDS.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <thread>

namespace {

struct Slowness {
  std::string call, rank, part;
  double seconds = 0;
};

Slowness asked_for() {
  Slowness slowness;
  const char* text = std::getenv("TESSERA_TEST_SLOW_DISK");
  std::istringstream words(text == nullptr ? "" : text);
  words >> slowness.call >> slowness.rank >> slowness.seconds >> slowness.part;
  return slowness;
}

void be_slow(const char* call, const char* path) {
  static const Slowness slowness = asked_for();
  static std::atomic<bool> is_over = false;
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank == nullptr || slowness.rank != rank || slowness.call != call ||
      std::strstr(path, slowness.part.c_str()) == nullptr || is_over.exchange(true))
    return;
  const int error = errno;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto end = now() + std::chrono::duration<double>(slowness.seconds);
  while (now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  errno = error;
}

template <class Call>
Call next(const char* name) {
  return reinterpret_cast<Call>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fsync(int file) {
  static const auto call = next<int (*)(int)>("fsync");
  char path[4096] = {};
  const auto link = "/proc/self/fd/" + std::to_string(file);
  if (::readlink(link.c_str(), path, sizeof path - 1) > 0) be_slow("fsync", path);
  return call(file);
}

int open(const char* path, int flags, ...) {
  static const auto call = next<int (*)(const char*, int, ...)>("open");
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  be_slow("open", path);
  return call(path, flags, mode);
}

int remove(const char* path) noexcept {
  static const auto call = next<int (*)(const char*)>("remove");
  be_slow("remove", path);
  return call(path);
}

}  // extern "C"

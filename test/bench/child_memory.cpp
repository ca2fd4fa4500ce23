#include "bench/child_memory.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace tessera::bench {
namespace {

std::int64_t peak_of_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || status != 0) throw std::runtime_error("the measured child failed");
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

std::int64_t peak_bytes(const std::function<void()>& body) {
  const auto base = peak_of_child([] {});
  return peak_of_child(body) - base;
}

}  // namespace tessera::bench

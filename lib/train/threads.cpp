#include "train/threads.h"

#include <ATen/Parallel.h>

#include <cstdlib>

namespace tessera::train {
namespace {

// The first number of OMP_NUM_THREADS, or 0. Left alone, LibTorch would lower it to the number of cores.
std::int64_t threads_of_environment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  constexpr long most = 1 << 16;
  const long threads = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return threads > 0 && threads <= most ? threads : 0;
}

}  // namespace

int set_threads(std::int64_t asked, std::int64_t share) {
  const auto of_user = asked > 0 ? asked : threads_of_environment();
  at::set_num_threads(static_cast<int>(of_user > 0 ? of_user : share));
  return at::get_num_threads();
}

}  // namespace tessera::train

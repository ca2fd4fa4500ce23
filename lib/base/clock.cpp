#include "base/clock.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <ctime>

namespace tessera::base {

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double RunningTime::seconds() {
  constexpr double longest_gap = 1;
  const auto now = seconds_now();
  if (last_ >= 0) sum_ += std::min(now - last_, longest_gap);
  last_ = now;
  return sum_;
}

std::string utc_time() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

}  // namespace tessera::base

// Elapsed time, and the time of day.
#pragma once

#include <string>

namespace tessera::base {

// Seconds since an arbitrary start; never goes back.
[[nodiscard]] double seconds_now();

// Elapsed time for timeouts, without the time in which this process was suspended (scontrol suspend, SIGSTOP): of the
// gap between two calls at most one second counts. Use it from one thread.
class RunningTime {
 public:
  // Returns the seconds that count since the first call. Call it several times a second.
  [[nodiscard]] double seconds();

 private:
  double last_ = -1;  // seconds_now() of the last call; -1: none yet
  double sum_ = 0;
};

// The current time in UTC, ISO 8601: "2025-03-01T12:00:05Z".
[[nodiscard]] std::string utc_time();

}  // namespace tessera::base

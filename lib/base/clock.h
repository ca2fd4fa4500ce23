// Time.
#pragma once

#include <string>

namespace tessera::base {

// Seconds since an arbitrary start; never goes back.
[[nodiscard]] double seconds_now();

// Time in which this process ran, for whoever waits with a limit: between two calls at most a second counts. A process
// that was suspended meanwhile, alone or with all others (scontrol suspend), has not waited. One thread.
class RunningTime {
 public:
  // Seconds since the first call. To be called several times a second.
  [[nodiscard]] double seconds();

 private:
  double last_ = -1;  // seconds_now() of the last call; -1: none yet
  double sum_ = 0;
};

// The time of day in UTC, ISO 8601: "2025-03-01T12:00:05Z".
[[nodiscard]] std::string utc_time();

}  // namespace tessera::base

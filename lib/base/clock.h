// Time.
#pragma once

#include <string>

namespace tessera::base {

// Seconds since an arbitrary start; never goes back.
[[nodiscard]] double seconds_now();

// The time of day in UTC, ISO 8601: "2025-03-01T12:00:05Z".
[[nodiscard]] std::string utc_time();

}  // namespace tessera::base

// Numbers as text for the user.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::base {

// Binary units, three digits: "0 B", "512 B", "1.50 KiB", "12.0 MiB", "3.21 GiB".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

// Decimal units, three digits: "0", "999", "1.23k", "45.6M", "7.00B", "1.02T", "-1.23k".
[[nodiscard]] std::string format_count(std::int64_t count);

// "0.42 ms", "5.31 s", "3 min 05 s", "2 h 03 min", "4 d 02 h".
[[nodiscard]] std::string format_seconds(double seconds);

}  // namespace tessera::base

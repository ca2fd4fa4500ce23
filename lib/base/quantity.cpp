#include "base/quantity.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

namespace tessera::base {
namespace {

// Three significant digits of a number below 1000 or, in binary units, 1024.
std::string three_digits(double x) {
  if (x < 9.995) return fmt::format("{:.2f}", x);
  if (x < 99.95) return fmt::format("{:.1f}", x);
  return fmt::format("{:.0f}", x);
}

// The largest of `units` in which the number, as printed, is at least 1.
template <std::size_t n>
std::string scaled(double x, double step, const std::array<const char*, n>& units) {
  std::size_t unit = 0;
  while (unit + 1 < n && x >= step - 0.5) {
    x /= step;
    ++unit;
  }
  return three_digits(x) + units[unit];
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<const char*, 6> units{" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  return scaled(static_cast<double>(bytes) / 1024, 1024, units);
}

std::string format_count(std::int64_t count) {
  if (count < 0 && count > -1000) return fmt::format("{}", count);
  if (count >= 0 && count < 1000) return fmt::format("{}", count);
  constexpr std::array<const char*, 6> units{"k", "M", "B", "T", "P", "E"};
  const double size = std::fabs(static_cast<double>(count));
  return (count < 0 ? "-" : "") + scaled(size / 1000, 1000, units);
}

std::string format_seconds(double seconds) {
  if (!(seconds >= 0) || !std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (seconds < 0.9995) return three_digits(seconds * 1000) + " ms";
  if (seconds < 59.95) return three_digits(seconds) + " s";
  const auto whole = static_cast<std::int64_t>(std::llround(std::fmin(seconds, 1e15)));
  const std::int64_t minutes = whole / 60;
  if (whole < 3600) return fmt::format("{} min {:02} s", minutes, whole % 60);
  if (whole < 86400) return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {:02} h", whole / 86400, (whole % 86400) / 3600);
}

}  // namespace tessera::base

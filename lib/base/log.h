// The log: lines for the user, on stderr. Wraps spdlog, which no other file includes.
// Thread-safe. Only ranks that "speak" write debug, info and warning lines; every rank writes errors.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace tessera::base {

enum class LogLevel { debug, info, warning, error };

// Sets the lowest level that this rank writes; a rank that does not speak writes errors only. Call it before threads
// start. Default: info, speaking.
void set_log(LogLevel level, bool this_rank_speaks);

// Returns whether this rank writes lines of this level.
[[nodiscard]] bool log_enabled(LogLevel level);

// Writes one line, whatever its level: "[time] level text", or the text alone if it is an info line.
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::debug)) log_line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::info)) log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::warning)) log_line(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::error)) log_line(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tessera::base

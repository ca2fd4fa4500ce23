// Errors, by whose fault they are, and the exit codes.
//
//   require / fail   the user's fault (settings, files, environment): throws Error(bad_input)
//   Problems         the same, collected, so that the user sees all of them at once
//   expect           the programmer's fault: throws std::logic_error with the source location
//
// A message names the value, the reason and the remedy.
#pragma once

#include <fmt/core.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tessera::base {

// The process's exit status.
enum class ExitCode {
  done = 0,
  bad_input = 2,      // invalid settings, files or data
  non_finite = 3,     // a loss or gradient that is not finite stopped the run
  rank_failed = 4,    // a rank, a collective or the last output of a run failed
  hung_up = 129,      // SIGHUP, after a whole step
  interrupted = 130,  // SIGINT, after a whole step
  terminated = 143,   // SIGTERM, after a whole step
};

// An error with a message for the user. The program prints it once, without a stack trace, and exits with code().
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message);
  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

[[noreturn]] void throw_bad_input(std::string message);
[[noreturn]] void throw_logic_error(const std::string& message, const std::source_location& where);

// Throws Error(bad_input) with the formatted message.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw_bad_input(fmt::format(format, std::forward<Args>(args)...));
}

// Throws Error(bad_input) with the formatted message unless `ok`. Formats the message only then.
template <class... Args>
void require(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) throw_bad_input(fmt::format(format, std::forward<Args>(args)...));
}

// A format string together with the place of the call.
template <class... Args>
struct LocatedFormat {
  fmt::format_string<Args...> format;
  std::source_location where;

  template <class S>
  requires std::is_convertible_v<const S&, fmt::string_view>
  consteval LocatedFormat(const S& s, std::source_location at = std::source_location::current())
      : format(s), where(at) {}
};

// Throws std::logic_error naming the caller's file and line unless `ok`. Release builds check it too: keep it cheap.
template <class... Args>
void expect(bool ok, LocatedFormat<std::type_identity_t<Args>...> located, Args&&... args) {
  if (!ok) throw_logic_error(fmt::format(located.format, std::forward<Args>(args)...), located.where);
}

// Collects the problems of one input (a settings file, a plan) to show them together.
class Problems {
 public:
  void add(std::string problem);

  template <class... Args>
  requires(sizeof...(Args) > 0) void add(fmt::format_string<Args...> format, Args&&... args) {
    add(fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] bool empty() const noexcept { return list_.empty(); }
  [[nodiscard]] const std::vector<std::string>& list() const noexcept { return list_; }

  // Throws one Error(bad_input) with all problems: "2 problems in <heading>:" and each on a line of its own, or
  // "<heading>: <problem>" for a single one. Returns if there are none.
  void throw_if_any(std::string_view heading) const;

 private:
  std::vector<std::string> list_;
};

}  // namespace tessera::base

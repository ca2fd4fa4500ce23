#include "base/error.h"

namespace tessera::base {

Error::Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

void throw_bad_input(std::string message) { throw Error(ExitCode::bad_input, message); }

void throw_logic_error(const std::string& message, const std::source_location& where) {
  throw std::logic_error(fmt::format("internal error: {} ({}:{})", message, where.file_name(), where.line()));
}

void Problems::add(std::string problem) { list_.push_back(std::move(problem)); }

void Problems::throw_if_any(std::string_view heading) const {
  if (list_.empty()) return;
  if (list_.size() == 1) fail("{}: {}", heading, list_.front());
  std::string text = fmt::format("{} problems in {}:", list_.size(), heading);
  for (const std::string& problem : list_) text += "\n  " + problem;
  throw_bad_input(std::move(text));
}

}  // namespace tessera::base

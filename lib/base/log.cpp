#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

namespace tessera::base {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Writes info lines, the program's output for the user, as plain text; stamps the others with time and level.
class LineFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    (message.level == spdlog::level::info ? plain_ : stamped_).format(message, out);
  }
  [[nodiscard]] std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LineFormatter>(); }

 private:
  spdlog::pattern_formatter plain_{"%v"};
  spdlog::pattern_formatter stamped_{"[%H:%M:%S.%e] %l %v"};
};

struct Log {
  std::shared_ptr<spdlog::logger> logger;
  std::atomic<int> least{static_cast<int>(LogLevel::info)};

  Log() : logger(std::make_shared<spdlog::logger>("tessera", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
    logger->set_formatter(std::make_unique<LineFormatter>());
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
  }
};

Log& the_log() {
  static Log log;
  return log;
}

}  // namespace

void set_log(LogLevel level, bool this_rank_speaks) {
  the_log().least = static_cast<int>(this_rank_speaks ? level : LogLevel::error);
}

bool log_enabled(LogLevel level) { return static_cast<int>(level) >= the_log().least; }

void log_line(LogLevel level, std::string_view text) {
  the_log().logger->log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace tessera::base

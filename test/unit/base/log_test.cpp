// If this failed, silenced ranks would print, or their errors would be lost.
#include "base/log.h"
#include "support/catch.h"

using namespace tessera::base;

TEST_CASE("a silenced rank writes errors only") {
  set_log(LogLevel::debug, true);
  CHECK(log_enabled(LogLevel::debug));
  set_log(LogLevel::debug, false);
  CHECK_FALSE(log_enabled(LogLevel::debug));
  CHECK_FALSE(log_enabled(LogLevel::warning));
  CHECK(log_enabled(LogLevel::error));
  set_log(LogLevel::info, true);
}

TEST_CASE("the level hides messages below it") {
  set_log(LogLevel::warning, true);
  CHECK_FALSE(log_enabled(LogLevel::info));
  CHECK(log_enabled(LogLevel::warning));
  set_log(LogLevel::info, true);
  CHECK_FALSE(log_enabled(LogLevel::debug));
}

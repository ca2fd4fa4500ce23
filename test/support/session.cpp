// Runs the tests of every test program. If it were broken, a program without a matching test would count as passed, and
// a test that hangs would end without its name.
#define CATCH_CONFIG_RUNNER
#include "support/catch.h"

#include "support/session.h"
#include "support/watchdog.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

#if __has_include(<catch2/catch_all.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

tessera::test::Watchdog& watchdog() {
  static tessera::test::Watchdog instance(tessera::test::test_time_limit());
  return instance;
}

std::size_t tests_run = 0;
bool run_ended = false;

class Progress : public ListenerBase {
 public:
  using ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    ListenerBase::testCaseStarting(test);
    watchdog().start(test.name);
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    ListenerBase::testCaseEnded(stats);
    watchdog().stop();
    ++tests_run;
  }
  void testRunEnded(const Catch::TestRunStats& stats) override {
    ListenerBase::testRunEnded(stats);
    run_ended = true;
  }
};
CATCH_REGISTER_LISTENER(Progress)

}  // namespace

int tessera::test::run_tests(int argc, char** argv) {
  const int result = Catch::Session().run(argc, argv);
  if (result == 0 && run_ended && tests_run == 0) {
    std::fprintf(stderr, "%s: no test ran\n", argv[0]);
    return EXIT_FAILURE;
  }
  return result;
}

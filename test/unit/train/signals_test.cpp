// If this failed, Ctrl-C or a scheduler's signal would kill a run in the middle of a step, or never stop it.
#include "train/signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "support/catch.h"

namespace tessera::train {
namespace {

TEST_CASE("each of the four signals is noted, the first one stays") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP, SIGUSR1);
  const StopSignals stop;
  CHECK(stop.received() == 0);
  raise(signal);
  CHECK(stop.received() == signal);
  raise(signal == SIGTERM ? SIGUSR1 : SIGTERM);
  CHECK(stop.received() == signal);
}

TEST_CASE("a new object has received nothing") {
  {
    const StopSignals stop;
    raise(SIGTERM);
    CHECK(stop.received() == SIGTERM);
  }
  CHECK(StopSignals().received() == 0);
}

TEST_CASE("the former actions are back afterwards") {
  struct sigaction ignore {
  }, before{}, after{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGUSR1, &ignore, &before);
  { const StopSignals stop; }
  sigaction(SIGUSR1, &before, &after);
  CHECK(after.sa_handler == SIG_IGN);
}

TEST_CASE("afterwards they are ignored, if that is asked for") {
  struct sigaction before {
  }, after{};
  sigaction(SIGUSR1, nullptr, &before);
  { const StopSignals stop(StopSignals::Afterwards::ignored); }
  sigaction(SIGUSR1, &before, &after);
  CHECK(after.sa_handler == SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
}

TEST_CASE("a process that ignores SIGHUP, as under nohup, goes on ignoring it") {
  const auto former = ::signal(SIGHUP, SIG_IGN);
  {
    const StopSignals stop;
    raise(SIGHUP);
    CHECK(stop.received() == 0);
  }
  ::signal(SIGHUP, former);
}

TEST_CASE("a second object is the programmer's error and leaves the first working") {
  const StopSignals stop;
  CHECK_THROWS_AS(StopSignals(), std::logic_error);
  raise(SIGTERM);
  CHECK(stop.received() == SIGTERM);
}

// Signal that ended a child that raised SIGINT so many times; 0 if it left in order.
int end_of_child(int interrupts) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    const StopSignals stop;
    for (int i = 0; i < interrupts; ++i) raise(SIGINT);
    _exit(stop.received() == SIGINT ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_CASE("the first SIGINT asks, the second kills") {
  CHECK(end_of_child(1) == 0);
  CHECK(end_of_child(2) == SIGINT);
}

TEST_CASE("exit codes and names follow the signal") {
  CHECK(exit_code_after(SIGHUP) == base::ExitCode::hung_up);
  CHECK(exit_code_after(SIGINT) == base::ExitCode::interrupted);
  CHECK(exit_code_after(SIGTERM) == base::ExitCode::terminated);
  CHECK(exit_code_after(SIGUSR1) == base::ExitCode::terminated);
  CHECK(static_cast<int>(exit_code_after(SIGINT)) == 130);
  CHECK(static_cast<int>(exit_code_after(SIGTERM)) == 143);
  CHECK(static_cast<int>(exit_code_after(SIGHUP)) == 129);
  CHECK(std::string(signal_name(SIGUSR1)) == "SIGUSR1");
  CHECK(std::string(signal_name(SIGHUP)) == "SIGHUP");
  CHECK_THROWS_AS(signal_name(SIGKILL), std::logic_error);
}

}  // namespace
}  // namespace tessera::train

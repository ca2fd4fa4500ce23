// Catches the signals that ask a run to stop. The run finishes the step under way and then ends in order.
#pragma once

#include <signal.h>

#include <array>

#include "base/error.h"

namespace tessera::train {

// While an object of this class lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 set a flag instead of ending the process.
// The destructor restores the former actions, or has the signals ignored, so that a repeated signal does not change the
// exit code of a process that has done its work. A second SIGINT ends the process at once, as users expect of Ctrl-C.
// SIGHUP comes when a terminal is closed; under nohup, which makes processes ignore it, it stays ignored. SIGUSR1 is
// for Slurm and for mpirun, which passes it on to all ranks but turns Ctrl-C into a kill. A second object at the same
// time is a std::logic_error. Create the object before any threads; any thread may call received().
class StopSignals {
 public:
  enum class Afterwards { as_before, ignored };

  explicit StopSignals(Afterwards afterwards = Afterwards::as_before);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Returns the number of the first signal that came, or 0.
  [[nodiscard]] int received() const noexcept;

 private:
  static constexpr std::array<int, 4> caught{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  Afterwards afterwards_;
  std::array<struct sigaction, caught.size()> former_{};
};

// Returns the exit code of a run that the signal stopped: 130 after SIGINT, 129 after SIGHUP, 143 after the others.
[[nodiscard]] base::ExitCode exit_code_after(int signal);

// Returns the name, such as "SIGTERM". Throws std::logic_error for a signal that StopSignals does not catch.
[[nodiscard]] const char* signal_name(int signal);

}  // namespace tessera::train

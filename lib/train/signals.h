// Signals that ask a run to stop: the step under way is finished, then the run ends in order.
#pragma once

#include <signal.h>

#include <array>

#include "base/error.h"

namespace tessera::train {

// While an object of this class lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 set a flag instead of ending the process;
// afterwards the former actions are back, or the signals are ignored: one that comes again must not change how a
// process that has done all ends. A second SIGINT ends the process at once, as users expect of Ctrl-C. SIGHUP comes
// when a terminal is closed; under nohup, which lets processes ignore it, it stays ignored. SIGUSR1 is for Slurm and
// for mpirun, which passes it on to all ranks while it turns Ctrl-C into a kill. At most one object at a time
// (std::logic_error); create it before threads, ask from any.
class StopSignals {
 public:
  enum class Afterwards { as_before, ignored };

  explicit StopSignals(Afterwards afterwards = Afterwards::as_before);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The number of the first signal that came, or 0.
  [[nodiscard]] int received() const noexcept;

 private:
  static constexpr std::array<int, 4> caught{SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  Afterwards afterwards_;
  std::array<struct sigaction, caught.size()> former_{};
};

// What a run that such a signal stopped exits with: 130 after SIGINT, 129 after SIGHUP, 143 after the others.
[[nodiscard]] base::ExitCode exit_code_after(int signal);

// "SIGTERM". Throws std::logic_error for a signal that is not caught.
[[nodiscard]] const char* signal_name(int signal);

}  // namespace tessera::train

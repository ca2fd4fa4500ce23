#include "train/signals.h"

#include <atomic>

namespace tessera::train {
namespace {

// The one global of lib/ that changes: a handler can reach nothing else.
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

extern "C" void note_signal(int signal) {
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
}

}  // namespace

StopSignals::StopSignals(Afterwards afterwards) : afterwards_(afterwards) {
  for (std::size_t i = 0; i < caught.size(); ++i) {
    sigaction(caught[i], nullptr, &former_[i]);
    base::expect(former_[i].sa_handler != &note_signal, "StopSignals is active already");
  }
  first_signal = 0;
  for (std::size_t i = 0; i < caught.size(); ++i) {
    const int signal = caught[i];
    if (signal == SIGHUP && former_[i].sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = &note_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    if (signal == SIGINT) action.sa_flags |= static_cast<int>(SA_RESETHAND);
    sigaction(signal, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  for (std::size_t i = 0; i < caught.size(); ++i)
    sigaction(caught[i], afterwards_ == Afterwards::ignored ? &ignore : &former_[i], nullptr);
}

int StopSignals::received() const noexcept { return first_signal; }

base::ExitCode exit_code_after(int signal) {
  switch (signal) {
    case SIGHUP: return base::ExitCode::hung_up;
    case SIGINT: return base::ExitCode::interrupted;
    default: return base::ExitCode::terminated;
  }
}

const char* signal_name(int signal) {
  switch (signal) {
    case SIGINT: return "SIGINT";
    case SIGTERM: return "SIGTERM";
    case SIGHUP: return "SIGHUP";
    case SIGUSR1: return "SIGUSR1";
    default: base::expect(false, "signal {} is not caught", signal);
  }
  return "";
}

}  // namespace tessera::train

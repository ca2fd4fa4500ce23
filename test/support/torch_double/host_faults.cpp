#include "support/torch_double/host_faults.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "support/torch_double/torch_double.h"

namespace tessera::test::torch_double {
namespace {

struct sigaction previous;

// Restores the previous handler and returns: the instruction faults again, and that handler gets the fault.
void tell(int signal, siginfo_t* info, [[maybe_unused]] void* context) {
  if (is_device_memory(info->si_addr)) {
    char text[160];
    const int length =
        std::snprintf(text, sizeof text,
                      "torch double: host code touches device memory at %p; copy to the host first\n", info->si_addr);
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text, static_cast<std::size_t>(length));
  }
  sigaction(signal, &previous, nullptr);
}

}  // namespace

void name_host_faults() {
  struct sigaction present {};
  if (sigaction(SIGSEGV, nullptr, &present) != 0) return;
  if ((present.sa_flags & SA_SIGINFO) != 0 && present.sa_sigaction == &tell) return;
  previous = present;
  struct sigaction ours {};
  ours.sa_sigaction = &tell;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace tessera::test::torch_double

// Runs the command tessera-train within the test's process; returns its exit code and all that it printed.
#pragma once

#include <string>
#include <vector>

namespace tessera::test {

struct FinishedCommand {
  int exit_code = 0;
  std::string out;  // standard output
  std::string err;  // standard error: pages, step lines, warnings, the error
};

// `words` are the command line without the program's name. Not for two threads at once: file descriptors 1 and 2 are
// redirected during the call.
[[nodiscard]] FinishedCommand run_tessera_train(const std::vector<std::string>& words);

}  // namespace tessera::test

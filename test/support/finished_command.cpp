#include "support/finished_command.h"

#include <unistd.h>

#include "support/log_of.h"
#include "train/command.h"

namespace tessera::test {

FinishedCommand run_tessera_train(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"tessera-train"};
  for (const auto& word : words) argv.push_back(word.c_str());
  FinishedCommand finished;
  const Redirection out(STDOUT_FILENO);
  const Redirection err(STDERR_FILENO);
  finished.exit_code = train::run_command(static_cast<int>(argv.size()), argv.data());
  finished.out = out.text();
  finished.err = err.text();
  return finished;
}

}  // namespace tessera::test

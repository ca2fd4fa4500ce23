// tessera-train's command line: settings files, then `--path.to.setting value`, then the settings as a whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/settings.h"

namespace tessera::config {

enum class Action { train, help, manual, print_settings, dry_run };

struct CommandLine {
  Settings settings;
  Action action = Action::train;
  std::int64_t rank = 0;             // of --dry-run
  std::vector<std::string> notices;  // for the log: names that were accepted and have no effect
};

// Reads and validates everything, files included. --help and --manual win over everything else, whatever is wrong with
// it. Throws one Error(bad_input) that lists every problem of every file and option.
[[nodiscard]] CommandLine read_command_line(int argc, const char* const* argv);

}  // namespace tessera::config

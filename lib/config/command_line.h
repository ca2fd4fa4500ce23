// tessera-train's command line: settings files, then `--path.to.setting value`, then the settings as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/settings.h"

namespace tessera::config {

enum class Action { train, help, manual, print_settings, dry_run };

struct CommandLine {
  Settings settings;
  Action action = Action::train;
  std::int64_t rank = 0;             // of --dry-run
  std::vector<std::string> notices;  // for the log: names that were accepted and have no effect
};

// Rules that rooms above this one know (the layout's, for the ranks that there are): adds what is wrong.
using FurtherRules = std::function<void(const Settings&, Action, base::Problems&)>;

// Reads and validates everything, files included. --help and --manual win over everything else, whatever is wrong with
// it. Throws one Error(bad_input) that lists every problem of every file and option, and of `further` unless
// parallelism that is not built yet was asked for.
[[nodiscard]] CommandLine read_command_line(int argc, const char* const* argv, const FurtherRules& further = nullptr);

}  // namespace tessera::config

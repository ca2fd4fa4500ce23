// Reads tessera-train's command line: settings files, then options `--path.to.setting value`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/action.h"
#include "config/settings.h"

namespace tessera::config {

struct CommandLine {
  Settings settings;
  Action action = Action::train;
  std::int64_t rank = 0;             // --rank, for --dry-run
  std::vector<std::string> notices;  // for the log: names that are accepted but have no effect
};

// Adds the problems that only folders above this one can find, such as sizes that do not fit the number of ranks.
using FurtherRules = std::function<void(const Settings&, Action, base::Problems&)>;

// Reads and validates the options and the files that they name. If --help or --manual is among them, returns that
// action without reading the rest. Throws one Error(bad_input) that lists the problems of all files and options, and
// those that `further` adds; does not call `further` if the settings ask for parallelism that is not built yet.
[[nodiscard]] CommandLine read_command_line(int argc, const char* const* argv, const FurtherRules& further = nullptr);

}  // namespace tessera::config

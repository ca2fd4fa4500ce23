// The page that --dry-run prints.
#pragma once

#include <cstdint>
#include <string>

#include "config/settings.h"

namespace tessera::train {

// Describes, for `rank` of `world` ranks: settings, groups, parameters, the program of one step, memory. Opens the data
// and takes no memory for parameters. Throws Error(bad_input) with all problems.
[[nodiscard]] std::string dry_run(const config::Settings& settings, std::int64_t world, std::int64_t rank);

}  // namespace tessera::train

// The settings as JSON, for --print-settings and settings.resolved.json, which repeats a run.
#pragma once

#include <string>

#include "config/settings.h"

namespace tessera::config {

// Returns every setting as JSON in the table's order, two spaces a level, numbers with as many digits as give back the
// same bits; keys of config.json only if they are overridden. Ends with '\n'. Reading it back gives an equal tree.
[[nodiscard]] std::string dump_settings(const Settings& settings);

}  // namespace tessera::config

// The settings as JSON: --print-settings, and settings.resolved.json, with which a run can be repeated.
#pragma once

#include <string>

#include "config/settings.h"

namespace tessera::config {

// Every setting, in the table's order, two spaces a level, numbers with the digits that give back the same bits; keys
// of config.json only where they are overridden. Ends with '\n'. Read back it gives an equal tree.
[[nodiscard]] std::string dump_settings(const Settings& settings);

}  // namespace tessera::config

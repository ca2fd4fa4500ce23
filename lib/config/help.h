// The text of --help.
#pragma once

#include <string>

namespace tessera::config {

// Returns usage, options, and every row of the field table under its heading: name, type, help, default and range.
[[nodiscard]] std::string help_text();

}  // namespace tessera::config

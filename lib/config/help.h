// --help.
#pragma once

#include <string>

namespace tessera::config {

// Usage, options, and every row of the field table under its heading: name, type, default, range, what it does.
[[nodiscard]] std::string help_text();

}  // namespace tessera::config

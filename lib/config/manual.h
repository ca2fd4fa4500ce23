// The manual page of all settings.
#pragma once

#include <string>

namespace tessera::config {

// Returns Markdown generated from the field table: one table per section, then other spellings, then VeOmni names
// without a meaning here. Ends with '\n'.
[[nodiscard]] std::string manual_page();

}  // namespace tessera::config

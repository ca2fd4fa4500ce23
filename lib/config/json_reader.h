// Settings files: JSON with comments, nested as the paths of the field table.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "config/merge.h"

namespace tessera::config {

// What the document says. Unknown names, wrong types, values out of range and VeOmni names that have no meaning here
// are added to `problems` as "file:line: path ...". A HuggingFace config.json is one problem, with the way to use it,
// and its content is Content::other, as is that of a file that cannot be read.
[[nodiscard]] Source read_settings(const base::JsonDocument& document, base::Problems& problems);

// The same for a file; that it cannot be read or parsed is one problem.
[[nodiscard]] Source read_settings_file(const std::filesystem::path& path, base::Problems& problems);

}  // namespace tessera::config

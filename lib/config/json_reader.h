// Reads settings files: JSON with comments, nested like the paths of the field table.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "config/merge.h"

namespace tessera::config {

// Returns the assignments of a document. Adds unknown names, wrong types, values out of range and VeOmni names without
// a meaning here to `problems`, as "file:line: path ...". A document that is not an object, or that is a HuggingFace
// config.json, is one problem, with the remedy; the result is then Content::other.
[[nodiscard]] Source read_settings(const base::JsonDocument& document, base::Problems& problems);

// Reads a file. One that cannot be read or parsed is one problem, and Content::other.
[[nodiscard]] Source read_settings_file(const std::filesystem::path& path, base::Problems& problems);

}  // namespace tessera::config

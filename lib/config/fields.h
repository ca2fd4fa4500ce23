// The field table: one row per setting. The JSON reader, the command line, --help, the dump and the manual page are all
// generated from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"
#include "config/settings.h"

namespace tessera::config {

// All rows, sections together, in the order of --help and of the dump.
[[nodiscard]] const std::vector<Field>& fields();

// Returns the row with this path, or null. Accepts other spellings of whole sections (see canonical_path).
[[nodiscard]] const Field* find_field(std::string_view path);

// Another name of a section, which VeOmni uses or used.
struct SectionSpelling {
  std::string spelled;    // "model.model_config."
  std::string canonical;  // "model."
};
[[nodiscard]] const std::vector<SectionSpelling>& section_spellings();

// "model.model_config.hidden_size" -> "model.hidden_size"; other paths are returned as they are.
[[nodiscard]] std::string canonical_path(std::string_view path);

// Returns whether `path` is the parent of a known name, and so an object in a settings file.
[[nodiscard]] bool is_section(std::string_view path);

// All names to suggest in "did you mean": rows and their sections.
[[nodiscard]] const std::vector<std::string>& known_names();

// Returns the value of one setting as text: value_text(settings, "train.precision") is "bfloat16".
[[nodiscard]] std::string value_text(const Settings& settings, std::string_view path);

}  // namespace tessera::config

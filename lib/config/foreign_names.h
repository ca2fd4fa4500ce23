// VeOmni's settings (0.1.12, and names that later versions moved) that Tessera does not have. It refuses them with a
// reason, or accepts them with a notice if ignoring them cannot change the result.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::config {

struct ForeignName {
  std::string pattern;  // a path, or "section.*" for everything below it
  // JSON texts of the values that may be ignored ("false"); "*": any value may.
  std::vector<std::string> harmless;
  std::string reason;  // completes "<path> is not a setting here: "
};

[[nodiscard]] const std::vector<ForeignName>& foreign_names();

// Returns the first entry that matches a path (as given or canonical), or null. Specific entries precede "section.*".
[[nodiscard]] const ForeignName* find_foreign(std::string_view path);

// Returns whether a foreign name lies below `path`.
[[nodiscard]] bool is_foreign_section(std::string_view path);

// Returns whether `value` (JSON text, or a word of a command line) may be ignored.
[[nodiscard]] bool is_harmless(const ForeignName& name, std::string_view value);

}  // namespace tessera::config

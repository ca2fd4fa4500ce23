// VeOmni's settings (0.1.12, and names that later versions moved) that Tessera has no use for: refused with the reason,
// or accepted with a notice where ignoring them cannot change the result.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::config {

struct ForeignName {
  std::string pattern;  // a path, or "section.*" for everything below it
  // JSON texts of the values that ask for nothing ("false"); "*": any value is harmless.
  std::vector<std::string> harmless;
  std::string reason;  // completes "<path> is not a setting here: "
};

[[nodiscard]] const std::vector<ForeignName>& foreign_names();

// The entry for a path (given or canonical), or null. The most specific entry comes first.
[[nodiscard]] const ForeignName* find_foreign(std::string_view path);

// Whether some foreign name lies below `path`.
[[nodiscard]] bool is_foreign_section(std::string_view path);

// Whether `value` (JSON text, or a word of a command line) may be ignored.
[[nodiscard]] bool is_harmless(const ForeignName& name, std::string_view value);

}  // namespace tessera::config

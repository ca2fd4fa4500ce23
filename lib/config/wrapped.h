// Breaks text into lines.
#pragma once

#include <cstddef>
#include <string>

namespace tessera::config {

// Returns the words of `text` in lines of at most `width` characters, each after `indent` spaces and with a line break
// at its end. A longer word has a line of its own.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t indent, std::size_t width);

}  // namespace tessera::config

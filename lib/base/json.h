// JSON as users write it: errors with file and line, duplicate keys refused, comments where allowed.
// Based on nlohmann::json's SAX interface; files that read values include <nlohmann/json.hpp> themselves.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace tessera::base {

enum class JsonComments { allowed, refused };  // "//" and "/* */"

// A parsed text and the line on which each of its values begins. Copyable; copies share nothing that changes.
class JsonDocument {
 public:
  JsonDocument(nlohmann::json value, std::string source, std::map<std::string, int> lines);

  [[nodiscard]] const nlohmann::json& value() const noexcept { return *value_; }
  [[nodiscard]] const std::string& source() const noexcept { return source_; }

  // First line is 1. The pointer is RFC 6901: "" is the whole, "/train/lr" a member ('~' is "~0", '/' is "~1").
  // For a member the line of its key. For a pointer that does not exist: the line of its nearest existing parent.
  [[nodiscard]] int line_of(std::string_view json_pointer) const;

  // "settings.json:12", for messages about that value.
  [[nodiscard]] std::string place_of(std::string_view json_pointer) const;

 private:
  std::shared_ptr<const nlohmann::json> value_;
  std::string source_;
  std::map<std::string, int> lines_;
};

// Deeper nesting than this is refused.
inline constexpr int json_depth_limit = 200;

// Parses one JSON text (RFC 8259; a UTF-8 byte order mark at the start is skipped). `source` is the file's name for
// messages; `first_line` is the number of the text's first line within it. Error(bad_input) "source:line: reason" for:
// syntax, trailing comma, a key twice in one object (both lines named), more than json_depth_limit levels, bytes that
// are not UTF-8, numbers outside double's range, NaN and Infinity, anything after the value.
[[nodiscard]] JsonDocument parse_json(std::string_view text, std::string source, JsonComments comments,
                                      int first_line = 1);

// Reads and parses a file (of at most 256 MiB).
[[nodiscard]] JsonDocument parse_json_file(const std::filesystem::path& path, JsonComments comments);

// The value alone, without the table of lines: for many small texts (JSONL). Same errors.
[[nodiscard]] nlohmann::json parse_json_line(std::string_view text, std::string_view source, int line);

// "abc/d~e" -> "abc~1d~0e": one component of a JSON pointer.
[[nodiscard]] std::string escape_pointer(std::string_view key);

}  // namespace tessera::base

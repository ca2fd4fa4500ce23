// Parses JSON that users write: errors name file and line, duplicate keys are errors, comments are optional.
// Based on nlohmann::json's SAX interface; a file that reads values includes <nlohmann/json.hpp> itself.
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

// A parsed text, and the line on which each of its values begins. Copies share the value, which never changes.
class JsonDocument {
 public:
  JsonDocument(nlohmann::json value, std::string source, std::map<std::string, int> lines);

  [[nodiscard]] const nlohmann::json& value() const noexcept { return *value_; }
  [[nodiscard]] const std::string& source() const noexcept { return source_; }

  // Returns the line of a value, counted from 1: of a member, its key's line; of a value that does not exist, its
  // nearest existing parent's. The pointer is RFC 6901: "" is the whole, "/train/lr" a member ('~' is "~0", '/' "~1").
  [[nodiscard]] int line_of(std::string_view json_pointer) const;

  // Returns "settings.json:12", for messages about the value.
  [[nodiscard]] std::string place_of(std::string_view json_pointer) const;

 private:
  std::shared_ptr<const nlohmann::json> value_;
  std::string source_;
  std::map<std::string, int> lines_;
};

// Deeper nesting than this is refused.
inline constexpr int json_depth_limit = 200;

// Parses one JSON text (RFC 8259; a UTF-8 byte order mark at the start is skipped). `source` is the file's name for
// messages; `first_line` is the number of the text's first line within it. Throws Error(bad_input)
// "source:line: reason" for a syntax error, a trailing comma, a key twice in one object (names both lines), more than
// json_depth_limit levels, bytes that are not UTF-8, integers beyond 64 bits, numbers outside double's range, NaN,
// Infinity, and anything after the value.
[[nodiscard]] JsonDocument parse_json(std::string_view text, std::string source, JsonComments comments,
                                      int first_line = 1);

// Reads and parses a file (of at most 256 MiB).
[[nodiscard]] JsonDocument parse_json_file(const std::filesystem::path& path, JsonComments comments);

// Parses one small text without a table of lines, for JSONL; `line` is its number in `source`. Refuses the same as
// parse_json, and comments.
[[nodiscard]] nlohmann::json parse_json_line(std::string_view text, std::string_view source, int line);

// Escapes one component of a JSON pointer: "abc/d~e" -> "abc~1d~0e".
[[nodiscard]] std::string escape_pointer(std::string_view key);

}  // namespace tessera::base

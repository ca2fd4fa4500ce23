// A setting's value, conversion from and to text and JSON, and the rules that it must obey.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera::config {

// A JSON object as text, for keys of config.json that have structure.
struct JsonText {
  std::string text;
  friend bool operator==(const JsonText&, const JsonText&) = default;
};
// monostate: an absent value (JSON null), for settings that may be absent. Words (enumerations) and paths are strings.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<bool>,
                           std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>, JsonText>;

enum class Kind { boolean, integer, number, word, text, path, booleans, integers, numbers, texts, paths, object };

[[nodiscard]] bool is_list(Kind kind);
// The type as --help shows it, unless it is a word: "integer", "true|false", "number ...".
[[nodiscard]] std::string kind_name(Kind kind);

enum class Infinity { refused, allowed };

// Bounds of a number, or of every number of a list. Open ends exclude the bound.
struct Range {
  enum class End { none, closed, open };
  double low = 0;
  End low_end = End::none;
  double high = 0;
  End high_end = End::none;
  Infinity infinity = Infinity::refused;

  [[nodiscard]] bool contains(double x) const;  // false for NaN
  [[nodiscard]] std::string str() const;        // "at least 0", "above 0, below 1"; empty: any
};

[[nodiscard]] Range any_number();
[[nodiscard]] Range at_least(double low);
[[nodiscard]] Range above(double low);
[[nodiscard]] Range between(double low, double high);     // both included
[[nodiscard]] Range from_below(double low, double high);  // low <= x < high
// Counts of things (sequences, tokens, ranks): 1 to 2^31 - 1, so that products of two fit into 64 bits.
[[nodiscard]] Range count_from(double low);

enum class Absence { refused, allowed };

// The type and the rules of a setting's value.
struct Form {
  Kind kind = Kind::text;
  std::vector<std::string> words{};  // Kind::word: the legal words; Kind::integer: words instead of a number ("auto")
  Range range{};
  Absence absence = Absence::refused;
};

// A value, or the reason why there is none: `= "8" is a string; write 8 without quotes`. The caller puts the place and
// the path of the setting before it.
struct Reading {
  std::optional<Value> value;
  std::string problem;
};

[[nodiscard]] Reading read_json_value(const Form& form, const nlohmann::json& json);
// Reads words of a command line. A scalar takes one word; a list takes one or more, or `[]` alone for the empty list;
// `null` is an absent value.
[[nodiscard]] Reading read_words(const Form& form, const std::vector<std::string>& words);

[[nodiscard]] nlohmann::json to_json(const Value& value);
// Returns text for the user: numbers with the fewest digits that give back the same bits, lists as on a command line,
// "none" for an absent value or an empty list.
[[nodiscard]] std::string to_text(const Value& value);

}  // namespace tessera::config

// One setting's value on its way between text, JSON and the settings tree, and the rules that it must obey.
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

// monostate: nothing given where a setting may be absent (JSON null). Words (enumerations) and paths are strings.
struct JsonText {
  std::string text;  // of an object: a key of config.json that has structure
  friend bool operator==(const JsonText&, const JsonText&) = default;
};
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<bool>,
                           std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>, JsonText>;

enum class Kind { boolean, integer, number, word, text, path, booleans, integers, numbers, texts, paths, object };

[[nodiscard]] bool is_list(Kind kind);
// "integer", "true|false", "numbers ...": what --help writes after the name of a setting that is not a word.
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

// What a value must look like.
struct Form {
  Kind kind = Kind::text;
  std::vector<std::string> words{};  // of Kind::word; of Kind::integer: words that may stand for a number ("auto")
  Range range{};
  Absence absence = Absence::refused;
};

// A value, or why there is none: `"8" is a string; write 8 without quotes`. The caller puts place and path before it.
struct Reading {
  std::optional<Value> value;
  std::string problem;
};

[[nodiscard]] Reading read_json_value(const Form& form, const nlohmann::json& json);
// From words of a command line. Scalars take one word; lists one or more, or `[]` alone for the empty
// list; an absent value is spelled `null`.
[[nodiscard]] Reading read_words(const Form& form, const std::vector<std::string>& words);

[[nodiscard]] nlohmann::json to_json(const Value& value);
// For people: numbers with the fewest digits that give back the same bits; lists as on a command line; "none".
[[nodiscard]] std::string to_text(const Value& value);

}  // namespace tessera::config

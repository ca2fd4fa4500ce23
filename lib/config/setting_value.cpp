#include "config/setting_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/json.h"
#include "base/nearest.h"

namespace tessera::config {
namespace {

using Json = nlohmann::json;

constexpr std::string_view empty_list = "[]";

Reading problem(std::string text) { return {std::nullopt, std::move(text)}; }
Reading value_of(Value value) { return {std::move(value), {}}; }

std::string kind_with_article(Kind kind) {
  switch (kind) {
    case Kind::boolean: return "true or false";
    case Kind::integer: return "an integer";
    case Kind::number: return "a number";
    case Kind::word:
    case Kind::text: return "a string";
    case Kind::path: return "a path";
    case Kind::booleans: return "a list of true and false";
    case Kind::integers: return "a list of integers";
    case Kind::numbers: return "a list of numbers";
    case Kind::texts: return "a list of strings";
    case Kind::paths: return "a list of paths";
    case Kind::object: return "an object";
  }
  return {};
}

Kind element_kind(Kind kind) {
  switch (kind) {
    case Kind::booleans: return Kind::boolean;
    case Kind::integers: return Kind::integer;
    case Kind::numbers: return Kind::number;
    case Kind::texts: return Kind::text;
    case Kind::paths: return Kind::path;
    default: return kind;
  }
}

// Returns the JSON text for messages, shortened.
std::string shown(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string type_with_article(const Json& json) {
  if (json.is_null()) return "null";
  if (json.is_boolean()) return "a boolean";
  if (json.is_string()) return "a string";
  if (json.is_array()) return "a list";
  if (json.is_object()) return "an object";
  return json.is_number_float() ? "not an integer" : "a number";
}

// Describes a value of the wrong type and the remedy.
std::string wrong_type(Kind kind, const Json& json) {
  const std::string what = fmt::format("= {} is {}", shown(json), type_with_article(json));
  if (json.is_string() && (kind == Kind::integer || kind == Kind::number || kind == Kind::boolean)) {
    const auto& text = json.get_ref<const std::string&>();
    const Json inside = Json::parse(text, nullptr, false);
    const bool fits = kind == Kind::boolean   ? inside.is_boolean()
                      : kind == Kind::integer ? inside.is_number_integer()
                                              : inside.is_number();
    if (fits) return fmt::format("{}; write {} without quotes", what, text);
  }
  return fmt::format("{}; give {}", what, kind_with_article(kind));
}

std::string out_of_range(const std::string& text, const Range& range) {
  return fmt::format("= {} is out of range; {}", text, range.str());
}

Reading checked_number(const Form& form, double x, const std::string& text) {
  if (std::isnan(x))
    return problem(fmt::format("= {} is not a number; give a number{}", text,
                               form.range.str().empty() ? "" : " " + form.range.str()));
  if (std::isinf(x) && form.range.infinity == Infinity::refused)
    return problem(fmt::format("= {} is not finite; give a finite number", text));
  if (!form.range.contains(x)) return problem(out_of_range(text, form.range));
  return value_of(x);
}

Reading checked_integer(const Form& form, std::int64_t x) {
  if (!form.range.contains(static_cast<double>(x))) return problem(out_of_range(std::to_string(x), form.range));
  return value_of(x);
}

bool is_utf8(const std::string& text) {
  const Json json(text);
  return json.dump(-1, ' ', false, Json::error_handler_t::ignore) ==
         json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Reading checked_text(const Form& form, const std::string& text) {
  if (form.kind == Kind::word) {
    if (std::find(form.words.begin(), form.words.end(), text) != form.words.end()) return value_of(text);
    return problem(fmt::format("= \"{}\" is none of: {}{}", text, fmt::join(form.words, ", "),
                               base::did_you_mean(text, form.words)));
  }
  if (text.empty()) return problem("= \"\" is empty; leave the setting out, or give a text");
  if (!is_utf8(text)) return problem("is not UTF-8; give a text or path that is");
  if (text.find('\0') != std::string::npos) return problem("has a zero byte; give a text without it");
  return value_of(text);
}

bool is_one_of(const std::vector<std::string>& words, const std::string& text) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Returns " or auto", the words that are legal instead of a number, or nothing.
std::string or_words(const Form& form) {
  return form.words.empty() ? "" : fmt::format(" or {}", fmt::join(form.words, ", "));
}

// Reads "inf" and "infinity", which JSON lacks as numbers.
std::optional<double> spelled_infinity(std::string_view text) {
  if (text == "inf" || text == "infinity" || text == "Infinity") return std::numeric_limits<double>::infinity();
  return std::nullopt;
}

Reading read_json_scalar(const Form& form, const Json& json) {
  switch (form.kind) {
    case Kind::boolean: return json.is_boolean() ? value_of(json.get<bool>()) : problem(wrong_type(form.kind, json));
    case Kind::integer:
      if (json.is_string() && is_one_of(form.words, json.get_ref<const std::string&>()))
        return value_of(json.get<std::string>());
      if (!json.is_number_integer()) return problem(wrong_type(form.kind, json) + or_words(form));
      if (json.is_number_unsigned() &&
          json.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
        return problem(out_of_range(shown(json), form.range));
      return checked_integer(form, json.get<std::int64_t>());
    case Kind::number:
      if (json.is_string()) {
        const auto infinite = spelled_infinity(json.get_ref<const std::string&>());
        if (infinite && form.range.infinity == Infinity::allowed) return value_of(*infinite);
      }
      return json.is_number() ? checked_number(form, json.get<double>(), shown(json))
                              : problem(wrong_type(form.kind, json));
    case Kind::object: return json.is_object() ? value_of(JsonText{json.dump()}) : problem(wrong_type(form.kind, json));
    default:
      return json.is_string() ? checked_text(form, json.get<std::string>()) : problem(wrong_type(form.kind, json));
  }
}

template <class T>
Reading gather(const std::vector<Value>& elements) {
  std::vector<T> list;
  list.reserve(elements.size());
  for (const Value& element : elements) list.push_back(std::get<T>(element));
  return value_of(std::move(list));
}

Reading list_of(Kind kind, const std::vector<Value>& elements) {
  switch (element_kind(kind)) {
    case Kind::boolean: return gather<bool>(elements);
    case Kind::integer: return gather<std::int64_t>(elements);
    case Kind::number: return gather<double>(elements);
    default: return gather<std::string>(elements);
  }
}

// Reads every element with `read`; reports the first that fails, with its index.
template <class Elements, class Read>
Reading read_list(const Form& form, const Elements& elements, Read read) {
  Form one = form;
  one.kind = element_kind(form.kind);
  std::vector<Value> values;
  for (const auto& element : elements) {
    Reading reading = read(one, element);
    if (!reading.value) return problem(fmt::format("[{}] {}", values.size(), reading.problem));
    values.push_back(std::move(*reading.value));
  }
  return list_of(form.kind, values);
}

// Returns whether a file, folder or link of this name exists, or a pair .bin and .idx with this stem.
bool names_a_path(const std::string& word) {
  std::error_code ignored;
  const auto is_there = [&](const std::string& path) {
    return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
  };
  return is_there(word) || is_there(word + ".idx");
}

// Splits "a,b" into "a" and "b", as VeOmni does, unless the word is itself an existing path.
std::vector<std::string> split_at_commas(const std::vector<std::string>& words) {
  std::vector<std::string> parts;
  for (const std::string& word : words) {
    if (names_a_path(word)) {
      parts.push_back(word);
      continue;
    }
    std::size_t from = 0;
    for (std::size_t comma = word.find(','); comma != std::string::npos; comma = word.find(',', from)) {
      parts.push_back(word.substr(from, comma - from));
      from = comma + 1;
    }
    parts.push_back(word.substr(from));
  }
  return parts;
}

Reading read_integer_word(const Form& form, const std::string& word) {
  if (is_one_of(form.words, word)) return value_of(word);
  std::int64_t x = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), x);
  if (error == std::errc::result_out_of_range) return problem(out_of_range(word, form.range));
  if (error != std::errc{} || end != word.data() + word.size())
    return problem(fmt::format("= {} is not an integer; give an integer such as 8{}", word, or_words(form)));
  return checked_integer(form, x);
}

Reading read_number_word(const Form& form, const std::string& word) {
  double x = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), x);
  if (error == std::errc::result_out_of_range)
    return problem(fmt::format("= {} does not fit into 64 bits; give a number such as 0.1 or 1e-4", word));
  if (error != std::errc{} || end != word.data() + word.size())
    return problem(fmt::format("= {} is not a number; give a number such as 0.1 or 1e-4", word));
  return checked_number(form, x, word);
}

Reading read_word(const Form& form, const std::string& word) {
  switch (form.kind) {
    case Kind::boolean:
      if (word == "true" || word == "1") return value_of(true);
      if (word == "false" || word == "0") return value_of(false);
      return problem(fmt::format("= {} is not a boolean; give true or false", word));
    case Kind::integer: return read_integer_word(form, word);
    case Kind::number: return read_number_word(form, word);
    case Kind::object: {
      try {
        const base::JsonDocument document = base::parse_json(word, "JSON", base::JsonComments::refused);
        if (document.value().is_object()) return value_of(JsonText{document.value().dump()});
      } catch (const base::Error& error) {
        return problem(fmt::format("is not a JSON object ({}); give one, in quotes: '{{\"key\": 1}}'", error.what()));
      }
      return problem(fmt::format("= {} is not a JSON object; give one, in quotes: '{{\"key\": 1}}'", word));
    }
    default: return checked_text(form, word);
  }
}

}  // namespace

bool is_list(Kind kind) { return element_kind(kind) != kind; }

std::string kind_name(Kind kind) {
  if (is_list(kind)) return kind_name(element_kind(kind)) + " ...";
  switch (kind) {
    case Kind::boolean: return "true|false";
    case Kind::integer: return "integer";
    case Kind::number: return "number";
    case Kind::path: return "path";
    case Kind::object: return "JSON object";
    default: return "text";
  }
}

bool Range::contains(double x) const {
  if (std::isnan(x)) return false;
  if (low_end == End::closed && x < low) return false;
  if (low_end == End::open && x <= low) return false;
  if (high_end == End::closed && x > high) return false;
  return !(high_end == End::open && x >= high);
}

std::string Range::str() const {
  std::vector<std::string> parts;
  if (low_end != End::none) parts.push_back(fmt::format("{} {}", low_end == End::closed ? "at least" : "above", low));
  if (high_end != End::none)
    parts.push_back(high >= 2147483647.0 ? fmt::format("at most {:.0f}", high)
                                         : fmt::format("{} {}", high_end == End::closed ? "at most" : "below", high));
  if (infinity == Infinity::allowed) parts.emplace_back("or inf");
  return fmt::format("{}", fmt::join(parts, ", "));
}

Range any_number() { return {}; }
Range at_least(double low) { return {.low = low, .low_end = Range::End::closed}; }
Range above(double low) { return {.low = low, .low_end = Range::End::open}; }
Range between(double low, double high) {
  return {.low = low, .low_end = Range::End::closed, .high = high, .high_end = Range::End::closed};
}
Range from_below(double low, double high) {
  return {.low = low, .low_end = Range::End::closed, .high = high, .high_end = Range::End::open};
}
Range count_from(double low) { return between(low, 2147483647.0); }

Reading read_json_value(const Form& form, const Json& json) {
  if (json.is_null()) {
    if (form.absence == Absence::allowed) return value_of(std::monostate{});
    return problem(
        fmt::format("= null; leave the setting out for its default, or give {}", kind_with_article(form.kind)));
  }
  if (!is_list(form.kind)) return read_json_scalar(form, json);
  if (form.kind == Kind::paths && json.is_string())
    return read_list(form, split_at_commas({json.get<std::string>()}), read_word);
  if (!json.is_array()) return problem(wrong_type(form.kind, json));
  return read_list(form, json, read_json_scalar);
}

Reading read_words(const Form& form, const std::vector<std::string>& words) {
  base::expect(!words.empty(), "a value has at least one word");
  if (form.absence == Absence::allowed && words.size() == 1 && words[0] == "null") return value_of(std::monostate{});
  if (is_list(form.kind)) {
    if (words.size() == 1 && words[0] == empty_list) return list_of(form.kind, {});
    return read_list(form, form.kind == Kind::paths ? split_at_commas(words) : words, read_word);
  }
  if (words.size() != 1)
    return problem(fmt::format("takes one value, not {} ({})", words.size(), fmt::join(words, " ")));
  return read_word(form, words[0]);
}

Json to_json(const Value& value) {
  return std::visit(
      [](const auto& x) -> Json {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<T, double>)
          return std::isinf(x) ? Json(x > 0 ? "inf" : "-inf") : Json(x);
        else if constexpr (std::is_same_v<T, JsonText>)
          return Json::parse(x.text);
        else
          return Json(x);
      },
      value);
}

std::string to_text(const Value& value) {
  return std::visit(
      [](const auto& x) -> std::string {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return "none";
        else if constexpr (std::is_same_v<T, JsonText>)
          return x.text;
        else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::int64_t> || std::is_same_v<T, double> ||
                           std::is_same_v<T, std::string>)
          return fmt::format("{}", x);
        else
          return x.empty() ? "none" : fmt::format("{}", fmt::join(x, " "));
      },
      value);
}

}  // namespace tessera::config

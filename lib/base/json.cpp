#include "base/json.h"

#include "base/error.h"
#include "base/file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace tessera::base {
namespace {

using Json = nlohmann::json;

// Iterates over the text and records how far the lexer has read.
class TextIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TextIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TextIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  friend bool operator==(const TextIterator& a, const TextIterator& b) { return a.at_ == b.at_; }
  friend bool operator!=(const TextIterator& a, const TextIterator& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  const char** reached_;
};

enum class KeepLines { yes, no };

// The last 40 bytes of `text` as printable ASCII, so that a broken file puts nothing else into a message.
std::string tail_for_message(std::string_view text) {
  constexpr std::size_t most = 40;
  std::string out = text.size() > most ? "..." : "";
  for (const char c : text.substr(text.size() - std::min(text.size(), most))) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code >= 0x7F)
      out += fmt::format("\\x{:02X}", code);
    else
      out += c;
  }
  return out;
}

// Builds the value and the table of lines, and refuses input that nlohmann::json would accept.
class Handler {
 public:
  Handler(std::string_view text, std::string_view source, int first_line, KeepLines keep)
      : text_(text), source_(source), counted_(text.data()), line_(first_line), keep_(keep), reached_(text.data()) {}

  [[nodiscard]] const char** reached() { return &reached_; }
  [[nodiscard]] Json take_value() { return std::move(root_); }
  [[nodiscard]] std::map<std::string, int> take_lines() { return std::move(lines_); }

  bool null() { return add(Json(nullptr)); }
  bool boolean(bool x) { return add(Json(x)); }
  bool number_integer(std::int64_t x) { return add(Json(x)); }
  bool number_unsigned(std::uint64_t x) { return add(Json(x)); }
  bool number_float(double x, const std::string& digits) {
    // An integer of more than 64 bits would silently lose digits.
    if (digits.find_first_of(".eE") == std::string::npos)
      stop(fmt::format("the integer {} does not fit into 64 bits", tail_for_message(digits)));
    return add(Json(x));
  }
  bool string(std::string& x) { return add(Json(std::move(x))); }
  bool binary(Json::binary_t& x) { return add(Json(std::move(x))); }

  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Frame& top = stack_.back();
    top.key = std::move(name);
    const std::string where = keep_ == KeepLines::yes ? pointer_of_next() : std::string();
    if (top.value->contains(top.key)) {
      const std::string shown = tail_for_message(top.key);
      if (keep_ == KeepLines::no) stop(fmt::format("key \"{}\" twice in one object", shown));
      stop(fmt::format("key \"{}\" twice in one object, on lines {} and {}", shown, lines_[where], current_line()));
    }
    if (keep_ == KeepLines::yes) lines_[where] = current_line();
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) { stop(readable(error.what())); }

 private:
  struct Frame {
    Json* value;
    std::string pointer;  // only with KeepLines::yes
    std::string key;      // of the member that follows
  };

  [[noreturn]] void stop(const std::string& reason) { fail("{}:{}: {}", source_, current_line(), reason); }

  // The lexer reads one character beyond a number, and none beyond other values; that character may be a line's end.
  int current_line() {
    const char* const end = std::max(counted_, reached_ - 1);
    line_ += static_cast<int>(std::count(counted_, end, '\n'));
    counted_ = end;
    return line_;
  }

  std::string pointer_of_next() const {
    const Frame& top = stack_.back();
    if (top.value->is_object()) return top.pointer + "/" + escape_pointer(top.key);
    return top.pointer + "/" + std::to_string(top.value->size());
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json empty) {
    if (stack_.size() >= json_depth_limit) stop(fmt::format("nested more than {} levels deep", json_depth_limit));
    std::string pointer;
    if (keep_ == KeepLines::yes && !stack_.empty()) pointer = pointer_of_next();
    Json* const value = place(std::move(empty));
    stack_.push_back({value, std::move(pointer), {}});
    return true;
  }

  bool close() {
    stack_.pop_back();
    return true;
  }

  // Returns the value's address, which stays valid: a container gets no new element before its last one is closed.
  Json* place(Json value) {
    if (stack_.empty()) {
      if (keep_ == KeepLines::yes) lines_[""] = current_line();
      root_ = std::move(value);
      return &root_;
    }
    Frame& top = stack_.back();
    if (top.value->is_object()) return &((*top.value)[top.key] = std::move(value));
    if (keep_ == KeepLines::yes) lines_[pointer_of_next()] = current_line();
    top.value->push_back(std::move(value));
    return &top.value->back();
  }

  // Shortens nlohmann's message to its reason and the last characters read. It has the form
  // "[json.exception...] parse error at line 2, column 3: syntax error while ... - reason; last read: '...'".
  [[nodiscard]] std::string readable(std::string_view what) const {
    const std::size_t at_error = static_cast<std::size_t>(std::max(reached_ - 1, text_.data()) - text_.data());
    const std::string_view before = text_.substr(0, at_error);
    const std::string_view rest = text_.substr(at_error);
    if (rest.starts_with('}') || rest.starts_with(']')) {
      const std::size_t last = before.find_last_not_of(" \t\r\n");
      if (last != std::string_view::npos && before[last] == ',')
        return fmt::format("a trailing comma before '{}'", rest.front());
    }
    if (rest.starts_with("NaN") || rest.starts_with("Infinity") || (before.ends_with('n') && rest.starts_with("an")))
      return "NaN and Infinity are not JSON numbers";
    std::string_view reason = what;
    if (const std::size_t at = reason.find("] "); at != std::string_view::npos) reason.remove_prefix(at + 2);
    if (const std::size_t at = reason.find("column "); at != std::string_view::npos)
      if (const std::size_t colon = reason.find(": ", at); colon != std::string_view::npos)
        reason.remove_prefix(colon + 2);
    std::string_view read;
    if (const std::size_t at = reason.find("; last read: '"); at != std::string_view::npos) {
      read = reason.substr(at + 14);
      reason = reason.substr(0, at);
      read = read.substr(0, read.rfind('\''));
    }
    constexpr std::size_t longest_reason = 200;
    std::string out(reason.substr(0, longest_reason));
    if (!read.empty()) out += fmt::format("; last read: '{}'", tail_for_message(read));
    return out;
  }

  std::string_view text_;
  std::string_view source_;
  const char* counted_;  // line_ is the line of this character
  int line_;
  KeepLines keep_;
  const char* reached_;  // moved by TextIterator
  Json root_;
  std::map<std::string, int> lines_;
  std::vector<Frame> stack_;
};

void run(Handler& handler, std::string_view text, JsonComments comments) {
  const TextIterator first(text.data(), handler.reached());
  const TextIterator last(text.data() + text.size(), handler.reached());
  Json::sax_parse(first, last, &handler, Json::input_format_t::json, true, comments == JsonComments::allowed);
}

}  // namespace

JsonDocument::JsonDocument(nlohmann::json value, std::string source, std::map<std::string, int> lines)
    : value_(std::make_shared<const Json>(std::move(value))), source_(std::move(source)), lines_(std::move(lines)) {}

int JsonDocument::line_of(std::string_view json_pointer) const {
  std::string pointer(json_pointer);
  for (;;) {
    if (const auto found = lines_.find(pointer); found != lines_.end()) return found->second;
    const std::size_t slash = pointer.rfind('/');
    if (slash == std::string::npos) return 1;
    pointer.erase(slash);
  }
}

std::string JsonDocument::place_of(std::string_view json_pointer) const {
  return fmt::format("{}:{}", source_, line_of(json_pointer));
}

JsonDocument parse_json(std::string_view text, std::string source, JsonComments comments, int first_line) {
  Handler handler(text, source, first_line, KeepLines::yes);
  run(handler, text, comments);
  return {handler.take_value(), std::move(source), handler.take_lines()};
}

JsonDocument parse_json_file(const std::filesystem::path& path, JsonComments comments) {
  constexpr std::uint64_t most = std::uint64_t{256} << 20;
  return parse_json(read_file(path, most), path.string(), comments);
}

nlohmann::json parse_json_line(std::string_view text, std::string_view source, int line) {
  Handler handler(text, source, line, KeepLines::no);
  run(handler, text, JsonComments::refused);
  return handler.take_value();
}

std::string escape_pointer(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

}  // namespace tessera::base

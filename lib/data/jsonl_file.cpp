#include "data/jsonl_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/quantity.h"
#include "data/byte_tokenizer.h"
#include "data/window.h"

namespace tessera::data {
namespace {

using Json = nlohmann::json;

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::int64_t long_document = 1 << 14;  // tokens; shorter ones decode faster than they are found again
constexpr std::size_t recent_documents = 4;
constexpr std::size_t keys_told = 12;                         // most keys that the log names as not read
constexpr std::uint64_t slow_index = std::uint64_t{1} << 28;  // bytes; decoding more takes seconds

// Names a line in error messages.
struct AtLine {
  std::string_view file;
  std::int64_t line;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    base::fail("{}:{}: {}", file, line, fmt::format(format, std::forward<Args>(args)...));
  }
};

// Returns the value at a key, or at a path of keys joined by dots; null if there is none.
const Json* find_value(const Json& object, const std::string& key) {
  if (const auto found = object.find(key); found != object.end()) return &*found;
  const Json* value = &object;
  std::size_t begin = 0;
  while (begin <= key.size()) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    if (!value->is_object()) return nullptr;
    const auto found = value->find(key.substr(begin, end - begin));
    if (found == value->end()) return nullptr;
    value = &*found;
    begin = end + 1;
  }
  return value;
}

enum class Kind { ids, labels };

std::vector<std::int32_t> read_ids(const Json& array, Kind kind, std::int64_t vocabulary, const AtLine& at) {
  const char* const key = kind == Kind::ids ? "input_ids" : "labels";
  if (!array.is_array()) at.fail("\"{}\" is of type {}, not a list of token ids", key, array.type_name());
  std::vector<std::int32_t> ids;
  ids.reserve(array.size());
  for (const Json& element : array) {
    if (!element.is_number_integer())
      at.fail("{}[{}] is of type {}, not integer", key, ids.size(),
              element.is_number() ? "fraction" : element.type_name());
    const bool huge = element.is_number_unsigned() && element.get<std::uint64_t>() > INT64_MAX;
    const std::int64_t id = huge ? -1 : element.get<std::int64_t>();
    const bool ignored = kind == Kind::labels && !huge && id == no_label;
    if (!ignored && (id < 0 || id >= vocabulary))
      at.fail("{}[{}] = {} is outside the vocabulary: ids go from 0 to {}{}", key, ids.size(), element.dump(),
              vocabulary - 1, kind == Kind::labels ? ", and -100 is no label" : "");
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

// Reads the mask under `key`: true for each token that it keeps. Returns an empty list if there is no such key.
std::vector<bool> read_mask(const Json& object, const char* key, std::size_t ids, const AtLine& at) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  if (!found->is_array()) at.fail("\"{}\" is of type {}, not a list of 0 and 1", key, found->type_name());
  if (found->size() != ids) at.fail("\"{}\" has {} values for {} input_ids", key, found->size(), ids);
  std::vector<bool> kept;
  kept.reserve(ids);
  for (const Json& element : *found) {
    const bool is_zero = element == false || element == 0, is_one = element == true || element == 1;
    if (!is_zero && !is_one)
      at.fail("{}[{}] = {} is neither 0 nor 1", key, kept.size(),
              element.is_primitive() && !element.is_string() ? element.dump() : element.type_name());
    kept.push_back(is_one);
  }
  return kept;
}

// Removes the labels of masked tokens.
void mask_labels(const std::vector<bool>& kept, const std::vector<std::int32_t>& ids,
                 std::vector<std::int32_t>& labels) {
  if (std::find(kept.begin(), kept.end(), false) == kept.end()) return;
  if (labels.empty()) labels = ids;
  for (std::size_t i = 0; i < kept.size(); ++i)
    if (!kept[i]) labels[i] = no_label;
}

// Cuts the masked tokens at both ends of a document.
void cut_padding(const std::vector<bool>& kept, std::vector<std::int32_t>& list) {
  if (kept.empty() || list.empty()) return;
  const auto first = std::find(kept.begin(), kept.end(), true) - kept.begin();
  const auto last = kept.rend() - std::find(kept.rbegin(), kept.rend(), true);
  list.erase(list.begin() + std::max(first, last), list.end());
  list.erase(list.begin(), list.begin() + std::min(first, std::ssize(list)));
}

JsonlDocument decode_ids(const Json& object, const Json& list, std::int64_t vocabulary, const AtLine& at) {
  std::vector<std::int32_t> ids = read_ids(list, Kind::ids, vocabulary, at);
  std::vector<std::int32_t> labels;
  if (const auto found = object.find("labels"); found != object.end()) {
    labels = read_ids(*found, Kind::labels, vocabulary, at);
    if (labels.size() != ids.size()) at.fail("{} labels for {} input_ids", labels.size(), ids.size());
  }
  const auto attended = read_mask(object, "attention_mask", ids.size(), at);
  mask_labels(attended, ids, labels);
  mask_labels(read_mask(object, "loss_mask", ids.size(), at), ids, labels);
  cut_padding(attended, ids);
  cut_padding(attended, labels);
  return {std::move(ids), std::move(labels)};
}

[[noreturn]] void fail_missing_key(const Json& object, const std::string& text_key, const AtLine& at) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) keys.push_back(item.key());
  at.fail("no key \"{}\" and no \"input_ids\"; data.text_keys names the key of the text{}", text_key,
          base::did_you_mean(text_key, keys));
}

// Adds the keys of `object` that are not read. `text_key` is the key of the text, null for a line with input_ids.
void add_unread(const Json& object, const std::string* text_key, std::set<std::string>& unread) {
  static const std::set<std::string> with_ids{"input_ids", "labels", "attention_mask", "loss_mask"};
  const auto is_read = [&](const std::string& key) {
    if (text_key == nullptr) return with_ids.contains(key);
    return key == (object.contains(*text_key) ? *text_key : text_key->substr(0, text_key->find('.')));
  };
  for (auto item = object.begin(); item != object.end() && unread.size() <= keys_told; ++item)
    if (!is_read(item.key())) unread.insert(item.key());
}

void tell_unread(const std::string& file, const std::set<std::string>& unread) {
  if (unread.empty()) return;
  const auto end = std::next(unread.begin(), static_cast<std::ptrdiff_t>(std::min(unread.size(), keys_told)));
  base::log_info("{}: these keys of its lines are not read: {}{}", file, fmt::join(unread.begin(), end, ", "),
                 unread.size() > keys_told ? " and others" : "");
}

// The line that begins at `start`, without its end; `next` becomes the start of the following one.
std::string_view line_at(std::string_view text, std::size_t start, std::size_t& next) {
  const std::size_t newline = text.find('\n', start);
  const std::size_t end = std::min(newline, text.size());
  next = end + 1;
  std::string_view line = text.substr(start, end - start);
  if (start == 0 && line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

std::int64_t JsonlDocument::tokens() const {
  return static_cast<std::int64_t>(text_.empty() ? ids_.size() : text_.size() + 1);
}

std::int64_t JsonlDocument::id(std::int64_t i) const {
  const auto at = static_cast<std::size_t>(i);
  if (text_.empty()) return ids_[at];
  return at == text_.size() ? end_of_document : static_cast<unsigned char>(text_[at]);
}

std::int64_t JsonlDocument::labelled_tokens() const {
  return tokens() - std::count(labels_.begin(), labels_.end(), no_label);
}

JsonlDocument decode_jsonl(std::string_view line, std::string_view file, std::int64_t line_number,
                           const std::string& text_key, std::int64_t vocabulary, std::set<std::string>* unread) {
  const AtLine at{file, line_number};
  const auto named_line = static_cast<int>(std::min<std::int64_t>(line_number, std::numeric_limits<int>::max()));
  const Json object = base::parse_json_line(line, file, named_line);
  if (!object.is_object()) at.fail("the line is of type {}, not a JSON object", object.type_name());
  if (const auto ids = object.find("input_ids"); ids != object.end()) {
    if (unread != nullptr) add_unread(object, nullptr, *unread);
    return decode_ids(object, *ids, vocabulary, at);
  }
  const Json* const text = find_value(object, text_key);
  if (text == nullptr) fail_missing_key(object, text_key, at);
  if (!text->is_string()) at.fail("\"{}\" is of type {}, not a string", text_key, text->type_name());
  if (unread != nullptr) add_unread(object, &text_key, *unread);
  return JsonlDocument(text->get_ref<const std::string&>());
}

JsonlReader::JsonlReader(std::string text_key, std::int64_t vocabulary, config::OnBadLine on_bad_line,
                         MappedFiles& mapped)
    : text_key_(std::move(text_key)), vocabulary_(vocabulary), on_bad_line_(on_bad_line), mapped_(mapped) {}

JsonlDocument JsonlReader::decode(std::string_view line, std::string_view file, std::int64_t line_number,
                                  std::set<std::string>* unread) const {
  return decode_jsonl(line, file, line_number, text_key_, vocabulary_, unread);
}

JsonlReader::Decoded JsonlReader::read(const std::string& path, std::uint64_t size, std::uint64_t start,
                                       std::int64_t tokens) const {
  if (tokens >= long_document) {
    const std::lock_guard lock(mutex_);
    for (const auto& recent : recent_)
      if (recent.start == start && recent.path == path) return recent.document;
  }
  const auto file = mapped_.map(path, size, base::AccessPattern::normal);
  std::size_t next = 0;
  std::shared_ptr<const JsonlDocument> fresh;
  try {
    fresh = std::make_shared<const JsonlDocument>(decode(line_at(file->text(), start, next), path, 0));
  } catch (const base::Error&) {  // the line was sound when the file was opened
    require_unchanged(path, size);
    throw;
  }
  require_unchanged(path, size);
  if (fresh->tokens() != tokens)
    throw base::Error(base::ExitCode::rank_failed,
                      fmt::format("{} changed while it was in use: the document at byte {} had {} tokens, now {}", path,
                                  start, tokens, fresh->tokens()));
  if (tokens >= long_document) {
    const std::lock_guard lock(mutex_);
    if (recent_.size() == recent_documents) recent_.erase(recent_.begin());
    recent_.push_back({path, start, fresh});
  }
  return fresh;
}

JsonlFile::JsonlFile(std::string path, const JsonlReader& reader, FileCounts& counts)
    : name_(std::move(path)), reader_(reader) {
  const base::MappedFile file(name_, base::AccessPattern::sequential);
  size_ = file.size();
  if (size_ >= slow_index)
    base::log_info("{}: reading {} of JSONL once to find its lines and their lengths", name_,
                   base::format_bytes(size_));
  counts = {};
  build_index(file.text(), counts);
  if (counts.faulty > 0)
    base::log_warning("{}: {} of {} lines are faulty and left out (data.on_bad_line = skip); the first is {}", name_,
                      counts.faulty, counts.read, counts.first_fault);
}

void JsonlFile::build_index(std::string_view text, FileCounts& counts) {
  base::DiskWork work("reading", name_);
  lines_.push_back({0, 0});
  std::set<std::string> unread;
  std::int64_t line_number = 0;
  for (std::size_t start = 0, next = 0; start < text.size(); start = next) {
    const std::string_view line = line_at(text, start, next);
    ++line_number;
    work.has_gone_on();
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      ++counts.blank;
      continue;
    }
    ++counts.read;
    std::optional<JsonlDocument> document;
    try {
      document = reader_.decode(line, name_, line_number, &unread);
    } catch (const base::Error& error) {
      if (reader_.on_bad_line() == config::OnBadLine::stop) throw;
      if (++counts.faulty == 1) counts.first_fault = error.what();
      continue;
    }
    if (document->is_text()) require_byte_vocabulary(reader_.vocabulary(), fmt::format("{}:{}", name_, line_number));
    add_document(*document, start, counts);
  }
  tell_unread(name_, unread);
}

void JsonlFile::add_document(const JsonlDocument& document, std::uint64_t line_start, FileCounts& counts) {
  if (document.tokens() == 0) {
    ++counts.empty;
    return;
  }
  lines_.back().start = line_start;
  lines_.push_back({0, lines_.back().tokens_before + document.tokens()});
  counts.labelled += document.labelled_tokens();
  counts.targets += document.labelled_tokens() - (document.target(0) == no_label ? 0 : 1);
}

std::int64_t JsonlFile::tokens_before(std::int64_t document) const {
  return lines_[static_cast<std::size_t>(document)].tokens_before;
}

std::int64_t JsonlFile::document_at(std::int64_t at) const {
  return document_holding(at, documents(), [this](std::int64_t document) { return tokens_before(document); });
}

void JsonlFile::read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
                     std::span<std::int64_t> targets) const {
  const auto content = reader_.read(name_, size_, lines_[static_cast<std::size_t>(document)].start,
                                    tokens_before(document + 1) - tokens_before(document));
  const auto count = static_cast<std::int64_t>(ids.size());
  base::expect(first >= 0 && first + count <= content->tokens(), "tokens [{}, {}) of {} in document {} of {}", first,
               first + count, content->tokens(), document, name_);
  for (std::int64_t i = 0; i < count; ++i) {
    ids[static_cast<std::size_t>(i)] = content->id(first + i);
    targets[static_cast<std::size_t>(i)] = content->target(first + i);
  }
}

}  // namespace tessera::data

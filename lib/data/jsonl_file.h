// A JSONL file: each line that is not blank is one JSON object, one document.
//
//   {"text": "..."}                              bytes of the text, then end_of_document
//   {"input_ids": [...]}                         the ids as they are (takes precedence over text)
//   {"input_ids": [...], "labels": [...]}        position i - 1 predicts labels[i], or nothing if that is -100
//
// A line with input_ids may have "attention_mask" and "loss_mask": 1 or 0 (true or false) for each id. A token with a 0
// in either has no label. Tokens that attention_mask masks before its first 1 and after its last are padding, and cut;
// a masked token in between stays as input. Accepts a byte order mark at the start and carriage returns before line
// ends. Does not read other keys, and logs their names once per file.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "data/document_file.h"
#include "data/mapped_files.h"

namespace tessera::data {

// One decoded line: a text, whose tokens are its bytes and end_of_document, or a list of ids.
class JsonlDocument {
 public:
  explicit JsonlDocument(std::string text) : text_(std::move(text)) {}
  // `labels` has one entry per id, or none at all: then each token is its own label.
  JsonlDocument(std::vector<std::int32_t> ids, std::vector<std::int32_t> labels)
      : ids_(std::move(ids)), labels_(std::move(labels)) {}

  [[nodiscard]] bool is_text() const { return !text_.empty(); }
  [[nodiscard]] std::int64_t tokens() const;
  [[nodiscard]] std::int64_t id(std::int64_t i) const;
  [[nodiscard]] std::int64_t target(std::int64_t i) const {
    return labels_.empty() ? id(i) : labels_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::int64_t labelled_tokens() const;

 private:
  std::string text_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> labels_;
};

// Decodes a line. `text_key` is a key, or a path of keys joined by dots. Throws Error(bad_input) "file:line: reason"
// for bad JSON, a value that is no object, a missing key, wrong types, ids outside the vocabulary, unequal lengths, and
// mask values other than 0 and 1. Adds the keys that it does not read to `unread`, unless that is null.
[[nodiscard]] JsonlDocument decode_jsonl(std::string_view line, std::string_view file, std::int64_t line_number,
                                         const std::string& text_key, std::int64_t vocabulary,
                                         std::set<std::string>* unread = nullptr);

// Decodes lines for all JSONL files of a corpus, and caches long documents. Thread-safe. `mapped` must outlive it.
class JsonlReader {
 public:
  using Decoded = std::shared_ptr<const JsonlDocument>;

  JsonlReader(std::string text_key, std::int64_t vocabulary, config::OnBadLine on_bad_line, MappedFiles& mapped);

  [[nodiscard]] std::int64_t vocabulary() const { return vocabulary_; }
  [[nodiscard]] config::OnBadLine on_bad_line() const { return on_bad_line_; }
  // Calls decode_jsonl with the reader's key and vocabulary.
  [[nodiscard]] JsonlDocument decode(std::string_view line, std::string_view file, std::int64_t line_number,
                                     std::set<std::string>* unread = nullptr) const;
  // Returns the document in the line of `path` that begins at byte `start`. `size` is the file's size and `tokens` the
  // document's length when the file was opened; throws Error(rank_failed) if either has changed.
  [[nodiscard]] Decoded read(const std::string& path, std::uint64_t size, std::uint64_t start,
                             std::int64_t tokens) const;

 private:
  struct Recent {
    std::string path;
    std::uint64_t start;
    Decoded document;
  };

  std::string text_key_;
  std::int64_t vocabulary_;
  config::OnBadLine on_bad_line_;
  MappedFiles& mapped_;
  // The long documents read last, so that neighbouring windows of a document do not decode it again.
  mutable std::mutex mutex_;
  mutable std::vector<Recent> recent_;
};

class JsonlFile final : public DocumentFile {
 public:
  // Decodes every line once, to find all errors here; keeps two integers per document. Sets `counts`. With on_bad_line
  // `skip`, leaves out and counts the lines that decode_jsonl refuses, and warns of their number. Logs the keys that it
  // does not read. Throws Error(bad_input), whatever on_bad_line, if a line is text and the vocabulary is smaller than
  // the byte tokenizer's. `reader` must outlive the file.
  JsonlFile(std::string path, const JsonlReader& reader, FileCounts& counts);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t documents() const override { return std::ssize(lines_) - 1; }
  [[nodiscard]] std::int64_t document_at(std::int64_t at) const override;
  [[nodiscard]] std::int64_t tokens_before(std::int64_t document) const override;
  void read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
            std::span<std::int64_t> targets) const override;

 private:
  struct Line {
    std::uint64_t start;  // byte
    std::int64_t tokens_before;
  };

  void build_index(std::string_view text, FileCounts& counts);
  void add_document(const JsonlDocument& document, std::uint64_t line_start, FileCounts& counts);

  std::string name_;
  const JsonlReader& reader_;
  std::uint64_t size_ = 0;   // bytes
  std::vector<Line> lines_;  // those of documents with tokens, and one more with the end
};

}  // namespace tessera::data

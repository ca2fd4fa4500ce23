// A JSONL file: each line that is not blank is one JSON object, one document.
//
//   {"text": "..."}                              bytes of the text, then end_of_document
//   {"input_ids": [...]}                         the ids as they are (takes precedence over text)
//   {"input_ids": [...], "labels": [...]}        labels[i] is what the position before i shall predict, -100 = nothing
//
// A byte order mark at the start and carriage returns before line ends are accepted. Other keys are not looked at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "config/settings.h"
#include "data/document_file.h"

namespace tessera::data {

// One decoded line: a text, whose tokens are its bytes and end_of_document, or a list of ids.
class JsonlDocument {
 public:
  explicit JsonlDocument(std::string text) : text_(std::move(text)) {}
  // `labels`: as many as ids, or none, then each token is its own label.
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

// Decodes a line. `text_key` is a key, or a path of keys joined by dots. Error(bad_input) "file:line: reason" for bad
// JSON, a value that is not an object, a missing key, wrong types, ids outside the vocabulary, unequal lengths.
[[nodiscard]] JsonlDocument decode_jsonl(std::string_view line, std::string_view file, int line_number,
                                         const std::string& text_key, std::int64_t vocabulary);

class JsonlFile final : public DocumentFile {
 public:
  // Maps the file and decodes every line once, so that all errors are found here; keeps two integers a document.
  // With `skip` a line that decode_jsonl refuses is left out and counted, and a warning says how many there were.
  // Error(bad_input) whatever `on_bad_line` if there is text and the vocabulary has no room for bytes.
  JsonlFile(const std::filesystem::path& path, std::string text_key, std::int64_t vocabulary,
            config::OnBadLine on_bad_line = config::OnBadLine::stop);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t documents() const override { return static_cast<std::int64_t>(line_starts_.size()); }
  [[nodiscard]] std::int64_t tokens_before(std::int64_t document) const override;
  [[nodiscard]] FileCounts counts() const override { return counts_; }
  void read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
            std::span<std::int64_t> targets) const override;

 private:
  using Decoded = std::shared_ptr<const JsonlDocument>;
  [[nodiscard]] Decoded decoded(std::int64_t document) const;
  void build_index(config::OnBadLine on_bad_line);
  void add_document(const JsonlDocument& document, std::uint64_t line_start);

  std::string name_;
  std::string text_key_;
  std::int64_t vocabulary_;
  base::MappedFile file_;
  std::vector<std::uint64_t> line_starts_;   // of documents with tokens
  std::vector<std::int64_t> tokens_before_;  // documents + 1
  FileCounts counts_;
  // The last long documents read: neighbouring windows of one need not decode it again.
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::int64_t, Decoded>> recent_;
};

}  // namespace tessera::data

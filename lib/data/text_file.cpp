#include "data/text_file.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/readable_file.h"
#include "data/byte_tokenizer.h"
#include "data/mapped_files.h"

namespace tessera::data {

void require_byte_vocabulary(std::int64_t vocabulary, const std::string& file) {
  base::require(vocabulary >= byte_vocabulary,
                "{}: text is read as bytes, whose ids reach {}, but the vocabulary has only {} ids; set "
                "model.vocab_size to {} or more, or tokenise the text with scripts/tokenize.py",
                file, end_of_document, vocabulary, byte_vocabulary);
}

TextFile::TextFile(std::string path, std::int64_t vocabulary, FileCounts& counts)
    : name_(std::move(path)), size_(static_cast<std::int64_t>(base::ReadableFile(name_).size())) {
  require_byte_vocabulary(vocabulary, name_);
  counts = {.read = 1, .empty = size_ == 0 ? 1 : 0, .labelled = size_ == 0 ? 0 : size_ + 1, .targets = size_};
}

std::int64_t TextFile::tokens_before(std::int64_t document) const {
  return document == 0 || size_ == 0 ? 0 : size_ + 1;
}

void TextFile::read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
                    std::span<std::int64_t> targets) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  base::expect(document == 0 && first >= 0 && first + count <= size_ + 1, "tokens [{}, {}) of {} in {}", first,
               first + count, size_ + 1, name_);
  const base::ReadableFile file(name_);
  require_unchanged(name_, static_cast<std::uint64_t>(size_), file.size());
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::clamp<std::int64_t>(size_ - first, 0, count)));
  file.read(static_cast<std::uint64_t>(first), bytes);
  std::transform(bytes.begin(), bytes.end(), ids.begin(), [](std::byte b) { return static_cast<std::int64_t>(b); });
  std::fill(ids.begin() + std::ssize(bytes), ids.end(), end_of_document);
  std::copy(ids.begin(), ids.end(), targets.begin());
}

}  // namespace tessera::data

#include "data/text_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "data/byte_tokenizer.h"

namespace tessera::data {

void require_byte_vocabulary(std::int64_t vocabulary, const std::string& file) {
  base::require(vocabulary >= byte_vocabulary,
                "{}: text is read as bytes, whose ids reach {}, but the vocabulary has only {} ids; set "
                "model.vocab_size to {} or more, or tokenise the text with scripts/tokenize.py",
                file, end_of_document, vocabulary, byte_vocabulary);
}

TextFile::TextFile(const std::filesystem::path& path, std::int64_t vocabulary)
    : name_(path.string()), size_(static_cast<std::int64_t>(base::MappedFile(path).size())) {
  require_byte_vocabulary(vocabulary, name_);
}

std::int64_t TextFile::tokens_before(std::int64_t document) const {
  return document == 0 || size_ == 0 ? 0 : size_ + 1;
}

FileCounts TextFile::counts() const {
  return {.read = 1, .empty = size_ == 0 ? 1 : 0, .blank = 0, .labelled = size_ == 0 ? 0 : size_ + 1, .targets = size_};
}

void TextFile::read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
                    std::span<std::int64_t> targets) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  base::expect(document == 0 && first >= 0 && first + count <= size_ + 1, "tokens [{}, {}) of {} in {}", first,
               first + count, size_ + 1, name_);
  const base::MappedFile file(name_, base::AccessPattern::random);  // windows come in any order
  base::require(static_cast<std::int64_t>(file.size()) == size_, "{} changed while it was in use: {} bytes, now {}",
                name_, size_, file.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = first + i;
    ids[static_cast<std::size_t>(i)] =
        at == size_ ? end_of_document : static_cast<std::int64_t>(file.bytes()[static_cast<std::size_t>(at)]);
  }
  std::copy(ids.begin(), ids.end(), targets.begin());
}

}  // namespace tessera::data

// One file as a list of documents of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::data {

// What a file held when it was opened.
struct FileCounts {
  std::int64_t read = 0;      // samples: text files, non-blank lines, documents of an index
  std::int64_t empty = 0;     // of these, without a token: left out
  std::int64_t faulty = 0;    // of these, left out because data.on_bad_line says so
  std::int64_t blank = 0;     // blank lines, not counted as samples
  std::int64_t labelled = 0;  // tokens that a loss may count
  std::int64_t targets = 0;   // of these, with a predecessor in their document
  std::string first_fault{};  // "file:line: reason" of the first faulty sample
};

// Documents are numbered from 0. All functions are thread-safe. The file must not change while the object lives. A
// corpus may have a million of them: an object keeps a few integers and the path, and neither a map nor a descriptor.
class DocumentFile {
 public:
  virtual ~DocumentFile() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual std::int64_t documents() const = 0;
  // The document that holds token `at` of the file. Precondition: 0 <= at < tokens_before(documents()).
  [[nodiscard]] virtual std::int64_t document_at(std::int64_t at) const = 0;
  // Number of tokens of all documents before `document`, which may be documents(): then of the whole file.
  [[nodiscard]] virtual std::int64_t tokens_before(std::int64_t document) const = 0;

  // Tokens [first, first + ids.size()) of a document, and for each what its predecessor shall predict: its own id, or
  // the label that the file gives it. Precondition: targets.size() == ids.size(), the range lies in the document.
  // Error(bad_input) for an id outside the vocabulary, naming file, document, position, id and limit.
  virtual void read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
                    std::span<std::int64_t> targets) const = 0;
};

// What DocumentFile::document_at says, of a file whose tokens_before is given.
template <class TokensBefore>
[[nodiscard]] std::int64_t document_holding(std::int64_t at, std::int64_t documents, TokensBefore tokens_before) {
  std::int64_t low = 0, high = documents;  // tokens_before(low) <= at < tokens_before(high)
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (tokens_before(middle) <= at ? low : high) = middle;
  }
  return low;
}

// Error(bad_input) unless the byte tokenizer's ids fit into the vocabulary.
void require_byte_vocabulary(std::int64_t vocabulary, const std::string& file);

}  // namespace tessera::data

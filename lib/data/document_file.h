// The interface of a file as a list of documents of tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::data {

// Counts of a file's samples, taken when it is opened.
struct FileCounts {
  std::int64_t read = 0;      // all samples: text files, non-blank lines, documents of an index
  std::int64_t empty = 0;     // samples left out because they have no token
  std::int64_t faulty = 0;    // samples left out because of data.on_bad_line = skip
  std::int64_t blank = 0;     // blank lines, which are no samples
  std::int64_t labelled = 0;  // tokens that the loss may count
  std::int64_t targets = 0;   // those of them that have a predecessor in their document
  std::string first_fault{};  // "file:line: reason" of the first faulty sample
};

// Documents are numbered from 0. All functions are thread-safe. The file must not change while the object lives. As a
// corpus may have a million files, an object holds neither a memory map nor a file descriptor.
class DocumentFile {
 public:
  virtual ~DocumentFile() = default;

  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual std::int64_t documents() const = 0;
  // Returns the document that holds token `at` of the file. Precondition: 0 <= at < tokens_before(documents()).
  [[nodiscard]] virtual std::int64_t document_at(std::int64_t at) const = 0;
  // Returns the number of tokens of all documents before `document`; of the whole file if it is documents().
  [[nodiscard]] virtual std::int64_t tokens_before(std::int64_t document) const = 0;

  // Reads tokens [first, first + ids.size()) of a document, and for each the target that its predecessor predicts: its
  // own id, or the label that the file gives it. Precondition: targets.size() == ids.size(), the range lies in the
  // document. Throws Error(bad_input) for an id outside the vocabulary, naming file, document, position, id and limit;
  // Error(rank_failed) if it sees that the file changed.
  virtual void read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
                    std::span<std::int64_t> targets) const = 0;
};

// Implements DocumentFile::document_at by binary search with the file's `tokens_before`.
template <class TokensBefore>
[[nodiscard]] std::int64_t document_holding(std::int64_t at, std::int64_t documents, TokensBefore tokens_before) {
  std::int64_t low = 0, high = documents;  // tokens_before(low) <= at < tokens_before(high)
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (tokens_before(middle) <= at ? low : high) = middle;
  }
  return low;
}

// Throws Error(bad_input) unless the byte tokenizer's ids fit into the vocabulary.
void require_byte_vocabulary(std::int64_t vocabulary, const std::string& file);

}  // namespace tessera::data

// A text file: one document of its bytes, not decoded (a byte order mark is three tokens), then end_of_document.
#pragma once

#include <string>

#include "data/document_file.h"

namespace tessera::data {

// Opens the file once for its size and again for each read; reads without a memory map.
class TextFile final : public DocumentFile {
 public:
  // Sets `counts`. Throws Error(bad_input) if the file cannot be read, or if the vocabulary is smaller than the byte
  // tokenizer's.
  TextFile(std::string path, std::int64_t vocabulary, FileCounts& counts);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t documents() const override { return size_ > 0 ? 1 : 0; }
  [[nodiscard]] std::int64_t document_at(std::int64_t) const override { return 0; }
  [[nodiscard]] std::int64_t tokens_before(std::int64_t document) const override;
  void read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
            std::span<std::int64_t> targets) const override;

 private:
  std::string name_;
  std::int64_t size_;  // bytes
};

}  // namespace tessera::data

// A pair of files as Megatron-Core writes it (megatron/core/datasets/indexed_dataset.py), read by memory map.
//
//   .bin  token ids, one after another
//   .idx  "MMIDIDX\0\0" | version 1: u64 | type code: u8 | sequences S: u64 | D: u64
//         | lengths in tokens: S x i32 | byte offsets into .bin: S x i64
//         | first sequence of each document, then S: D x i64; all little-endian, nothing aligned
//
// The sequences of a document are read as one row of tokens. Accepts integer types only; refuses multimodal pairs,
// which have a mode per sequence.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "data/document_file.h"
#include "data/mapped_files.h"

namespace tessera::data {

class MegatronFile final : public DocumentFile {
 public:
  // Verifies the header, the sizes, and that the sequences follow each other without a gap and fill the .bin exactly;
  // throws Error(bad_input) otherwise. read() checks ids against the vocabulary. Sets `counts`. `mapped` must outlive
  // the file.
  MegatronFile(const std::string& index, std::int64_t vocabulary, MappedFiles& mapped, FileCounts& counts);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t documents() const override { return documents_; }
  [[nodiscard]] std::int64_t document_at(std::int64_t at) const override;
  [[nodiscard]] std::int64_t tokens_before(std::int64_t document) const override;
  void read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
            std::span<std::int64_t> targets) const override;

 private:
  [[nodiscard]] MappedFiles::Mapped map_index() const;
  void read_header(const base::MappedFile& index);
  void check_sequences(const base::MappedFile& index) const;
  void check_documents(const base::MappedFile& index, FileCounts& counts);
  [[nodiscard]] std::int64_t byte_offset(const base::MappedFile& index, std::int64_t sequence) const;
  [[nodiscard]] std::int64_t first_sequence(const base::MappedFile& index, std::int64_t document) const;
  [[nodiscard]] std::int64_t tokens_before(const base::MappedFile& index, std::int64_t document) const;

  std::string name_;  // of the .bin
  MappedFiles& mapped_;
  std::uint64_t index_bytes_ = 0, token_file_bytes_ = 0;
  std::int64_t vocabulary_;
  int type_code_ = 0;
  std::int64_t token_bytes_ = 0;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
};

// Return the .bin that belongs to an .idx, and the reverse.
[[nodiscard]] std::string tokens_of_index(const std::string& index);
[[nodiscard]] std::string index_of_tokens(const std::string& tokens);

}  // namespace tessera::data

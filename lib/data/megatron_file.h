// A pair of files as Megatron-Core writes it (megatron/core/datasets/indexed_dataset.py), both memory-mapped.
//
//   .bin  token ids, one after another
//   .idx  "MMIDIDX\0\0" | version 1: u64 | type code: u8 | sequences S: u64 | D: u64
//         | lengths in tokens: S x i32 | byte offsets into .bin: S x i64 | first sequence of each document, and at last
//         S: D x i64; all little-endian, nothing aligned
//
// A document's sequences are read as one row of tokens. Integer types only; multimodal pairs (a mode a sequence) are
// refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "data/document_file.h"

namespace tessera::data {

class MegatronFile final : public DocumentFile {
 public:
  // Verifies header, sizes, and that the sequences follow each other without gap and fill the .bin exactly.
  // Ids are checked against the vocabulary when they are read.
  MegatronFile(const std::filesystem::path& index, std::int64_t vocabulary);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t documents() const override { return documents_; }
  [[nodiscard]] std::int64_t tokens_before(std::int64_t document) const override;
  [[nodiscard]] FileCounts counts() const override { return counts_; }
  void read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
            std::span<std::int64_t> targets) const override;

 private:
  void read_header();
  void check_sequences() const;
  void check_documents();
  template <class T>
  [[nodiscard]] T load(std::uint64_t offset) const;  // from the index
  [[nodiscard]] std::int64_t byte_offset(std::int64_t sequence) const;
  [[nodiscard]] std::int64_t first_sequence(std::int64_t document) const;

  std::string name_;  // of the .bin
  std::string index_name_;
  std::int64_t vocabulary_;
  base::MappedFile index_;
  base::MappedFile tokens_;
  int type_code_ = 0;
  std::int64_t token_bytes_ = 0;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
  FileCounts counts_;
};

}  // namespace tessera::data

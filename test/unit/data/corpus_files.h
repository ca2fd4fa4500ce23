// Files of training data for tests, written byte by byte without the code under test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/megatron_file.h"
#include "data/text_file.h"
#include "support/temp_folder.h"

namespace tessera::test {

using Documents = std::vector<std::vector<std::int64_t>>;

// Returns consecutive documents of the given lengths, with ids counted from `first`: every token has a different id.
inline Documents numbered(const std::vector<int>& lengths, std::int64_t first = 0) {
  Documents documents;
  for (const int length : lengths) {
    documents.emplace_back();
    for (int i = 0; i < length; ++i) documents.back().push_back(first++);
  }
  return documents;
}

inline std::string json_list(const std::vector<std::int64_t>& numbers) {
  std::string text = "[";
  for (const std::int64_t number : numbers) text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  return text + "]";
}

inline std::string jsonl(const Documents& documents) {
  std::string text;
  for (const auto& ids : documents) text += "{\"input_ids\": " + json_list(ids) + "}\n";
  return text;
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The content of an .idx file; a test may set every field to a false value.
struct MegatronIndex {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t type_code = 8;  // uint16
  std::uint64_t sequence_count = 0;
  std::uint64_t document_entries = 0;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> pointers;
  std::vector<std::int64_t> document_indices;

  [[nodiscard]] std::string bytes() const {
    std::string out = magic;
    append(out, version);
    append(out, type_code);
    append(out, sequence_count);
    append(out, document_entries);
    for (const auto x : lengths) append(out, x);
    for (const auto x : pointers) append(out, x);
    for (const auto x : document_indices) append(out, x);
    return out;
  }
};

// Returns the index of sequences of these lengths, one per document.
inline MegatronIndex index_of(const std::vector<std::int32_t>& lengths, std::int64_t token_bytes,
                              std::uint8_t type_code) {
  MegatronIndex index;
  index.type_code = type_code;
  index.lengths = lengths;
  index.sequence_count = lengths.size();
  index.document_entries = lengths.size() + 1;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    index.pointers.push_back(at);
    at += lengths[i] * token_bytes;
    index.document_indices.push_back(static_cast<std::int64_t>(i));
  }
  index.document_indices.push_back(static_cast<std::int64_t>(lengths.size()));
  return index;
}

// Writes NAME.bin and NAME.idx with tokens of type T and returns the path of the .idx.
template <class T>
std::filesystem::path write_pair(const TempFolder& folder, const std::string& name, const Documents& documents,
                                 std::uint8_t type_code) {
  std::string tokens;
  std::vector<std::int32_t> lengths;
  for (const auto& ids : documents) {
    lengths.push_back(static_cast<std::int32_t>(ids.size()));
    for (const std::int64_t id : ids) append(tokens, static_cast<T>(id));
  }
  folder.write(name + ".bin", tokens);
  return folder.write(name + ".idx", index_of(lengths, sizeof(T), type_code).bytes());
}

// The parts that the files of a corpus share, for a file that is read alone.
struct SharedParts {
  data::MappedFiles mapped;
  data::JsonlReader reader;
  data::FileCounts held;

  explicit SharedParts(std::string text_key = "text", std::int64_t vocabulary = 300,
                       config::OnBadLine on_bad_line = config::OnBadLine::stop)
      : reader(std::move(text_key), vocabulary, on_bad_line, mapped) {}
};

// A file that is read alone, without a corpus, and its counts.
template <class File>
class Alone : public data::DocumentFile {
 public:
  [[nodiscard]] const std::string& name() const override { return file_->name(); }
  [[nodiscard]] std::int64_t documents() const override { return file_->documents(); }
  [[nodiscard]] std::int64_t document_at(std::int64_t at) const override { return file_->document_at(at); }
  [[nodiscard]] std::int64_t tokens_before(std::int64_t d) const override { return file_->tokens_before(d); }
  void read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
            std::span<std::int64_t> targets) const override {
    file_->read(document, first, ids, targets);
  }
  [[nodiscard]] const data::FileCounts& counts() const { return parts_.held; }

 protected:
  template <class... Args>
  explicit Alone(const Args&... args) : parts_(args...) {}

  SharedParts parts_;
  std::optional<File> file_;
};

struct JsonlAlone : Alone<data::JsonlFile> {
  JsonlAlone(const std::filesystem::path& path, const std::string& text_key, std::int64_t vocabulary,
             config::OnBadLine on_bad_line = config::OnBadLine::stop)
      : Alone(text_key, vocabulary, on_bad_line) {
    file_.emplace(path.string(), parts_.reader, parts_.held);
  }
};

struct MegatronAlone : Alone<data::MegatronFile> {
  MegatronAlone(const std::filesystem::path& index, std::int64_t vocabulary) {
    file_.emplace(index.string(), vocabulary, parts_.mapped, parts_.held);
  }
};

struct TextAlone : Alone<data::TextFile> {
  TextAlone(const std::filesystem::path& path, std::int64_t vocabulary) {
    file_.emplace(path.string(), vocabulary, parts_.held);
  }
};

// Returns options for one path.
inline data::CorpusOptions corpus_options(const std::filesystem::path& path, std::int64_t vocabulary = 1 << 20) {
  data::CorpusOptions options;
  options.paths = {path.string()};
  options.vocabulary = vocabulary;
  return options;
}

inline data::DatasetOptions dataset_options(const std::filesystem::path& path, std::int64_t seq_len,
                                            config::Documents documents) {
  data::DatasetOptions options;
  options.corpus = corpus_options(path);
  options.seq_len = seq_len;
  options.documents = documents;
  return options;
}

// Reads all tokens of a document.
inline std::vector<std::int64_t> ids_of(const data::DocumentFile& file, std::int64_t document) {
  std::vector<std::int64_t> ids(
      static_cast<std::size_t>(file.tokens_before(document + 1) - file.tokens_before(document)));
  std::vector<std::int64_t> targets(ids.size());
  file.read(document, 0, ids, targets);
  return ids;
}

}  // namespace tessera::test

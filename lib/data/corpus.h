// All files of a data setting as one list of documents, and as one stream of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/settings.h"
#include "data/document_file.h"
#include "data/fingerprint.h"
#include "data/jsonl_file.h"
#include "data/mapped_files.h"
#include "data/sources.h"

namespace tessera::data {

struct CorpusOptions {
  std::string setting = "data.train_path";  // for messages
  std::vector<std::string> paths;           // see find_sources
  config::DataFormat format = config::DataFormat::automatic;
  std::string text_key = "text";
  config::OnBadLine on_bad_line = config::OnBadLine::stop;     // for JSONL
  std::int64_t vocabulary = 0;                                 // 1 to 2^31 - 1; larger ids are errors
  std::vector<std::string> own_outputs;                        // see find_sources
  std::size_t mapped_files = 1024;                             // see MappedFiles
  std::uint64_t fingerprint_bytes = std::uint64_t{256} << 20;  // see Fingerprint
};

// Numbers the documents of all files in order, from 0. Thread-safe once constructed.
class Corpus {
 public:
  // Opens, indexes and verifies every file. Throws Error(bad_input) with the reason if one is unsound or if no token is
  // left: "data.train_path: 0 usable samples: a.jsonl: 5 read, 5 dropped because they are empty".
  explicit Corpus(const CorpusOptions& options);
  Corpus(const Corpus&) = delete;  // its files refer to it
  Corpus& operator=(const Corpus&) = delete;

  [[nodiscard]] const std::string& setting() const { return setting_; }
  [[nodiscard]] std::int64_t documents() const { return documents_before_.back(); }
  [[nodiscard]] std::int64_t tokens() const { return tokens_before_.back(); }
  [[nodiscard]] std::int64_t tokens_of(std::int64_t document) const;
  [[nodiscard]] const FileCounts& counts() const { return counts_; }  // of all files together
  // Describes the samples of each file, for messages about too little data: "a.jsonl: 5 read, 5 dropped because they
  // are empty". Describes only the first three files, and adds the number of the others and the sum of all.
  [[nodiscard]] std::string samples_by_file() const;
  // "files: 10 text, 2 jsonl; 345 documents, 1.23M tokens"
  [[nodiscard]] std::string description() const;

  // The fingerprint of all files in their order. It covers JSONL files and the .idx files of pairs whole.
  [[nodiscard]] const Fingerprint& fingerprint() const { return fingerprint_; }
  // Number and paths of the files that hold tokens; of a pair, the .bin. Precondition: 0 <= file < files().
  [[nodiscard]] std::int64_t files() const { return std::ssize(files_); }
  [[nodiscard]] const std::string& path_of(std::int64_t file) const {
    return files_[static_cast<std::size_t>(file)]->name();
  }

  // Reads tokens of one document, like DocumentFile::read.
  void read_document(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
                     std::span<std::int64_t> targets) const;
  // Reads tokens [first, first + ids.size()) of the concatenation of all documents, like DocumentFile::read.
  void read_stream(std::int64_t first, std::span<std::int64_t> ids, std::span<std::int64_t> targets) const;

 private:
  std::unique_ptr<DocumentFile> open_file(Source source, FileCounts& counts);
  void add_file(Source source);

  std::string setting_;
  std::int64_t vocabulary_;
  Fingerprint fingerprint_;
  MappedFiles mapped_;
  JsonlReader jsonl_;
  std::vector<std::unique_ptr<DocumentFile>> files_;  // those that hold tokens
  std::vector<std::int64_t> documents_before_;        // files + 1
  std::vector<std::int64_t> tokens_before_;           // files + 1
  FileCounts counts_;
  std::vector<std::string> first_samples_;  // of the first few files, for samples_by_file
  std::int64_t file_count_ = 0;             // of all files, those without tokens too
  std::string formats_;
};

// "5 read, 5 dropped because they are empty".
[[nodiscard]] std::string describe(const FileCounts& counts);

}  // namespace tessera::data

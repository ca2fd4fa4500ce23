#include "data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/quantity.h"
#include "data/megatron_file.h"
#include "data/text_file.h"

namespace tessera::data {
namespace {

using config::DataFormat;

constexpr std::int64_t files_described = 3;  // in messages

void add(const FileCounts& counts, FileCounts& sum) {
  sum.read += counts.read;
  sum.empty += counts.empty;
  if (sum.faulty == 0) sum.first_fault = counts.first_fault;
  sum.faulty += counts.faulty;
  sum.blank += counts.blank;
  sum.labelled += counts.labelled;
  sum.targets += counts.targets;
}

const char* name_of(DataFormat format) {
  switch (format) {
    case DataFormat::jsonl: return "jsonl";
    case DataFormat::megatron: return "megatron";
    default: return "text";
  }
}

std::unique_ptr<DocumentFile> open_jsonl(Source source, const JsonlReader& reader, FileCounts& counts) {
  if (source.certainty == Certainty::sure) return std::make_unique<JsonlFile>(std::move(source.path), reader, counts);
  try {
    return std::make_unique<JsonlFile>(source.path, reader, counts);
  } catch (const base::Error& error) {
    base::fail(
        "{}; a .json file is read as JSONL, one object a line: name the files without this one, or give their format "
        "with --data.format",
        error.what());
  }
}

// Returns the index of the part that holds element `at`. `starts` are the rising starts of the parts and the end of the
// last one; an empty part holds no element.
std::size_t part_of(const std::vector<std::int64_t>& starts, std::int64_t at) {
  return static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), at) - starts.begin()) - 1;
}

}  // namespace

std::string describe(const FileCounts& counts) {
  std::string text = fmt::format("{} read", counts.read);
  if (counts.empty > 0) text += fmt::format(", {} dropped because they are empty", counts.empty);
  if (counts.faulty > 0)
    text += fmt::format(", {} dropped because they are faulty (the first: {})", counts.faulty, counts.first_fault);
  if (counts.blank > 0) text += fmt::format(", {} blank lines", counts.blank);
  return text;
}

Corpus::Corpus(const CorpusOptions& options)
    : setting_(options.setting),
      vocabulary_(options.vocabulary),
      fingerprint_(options.fingerprint_bytes),
      mapped_(options.mapped_files),
      jsonl_(options.text_key, options.vocabulary, options.on_bad_line, mapped_),
      documents_before_{0},
      tokens_before_{0} {
  base::expect(options.vocabulary >= 1 && options.vocabulary <= INT32_MAX, "a vocabulary of {}", options.vocabulary);
  std::map<DataFormat, std::int64_t> files;
  for (Source& source : find_sources(options.paths, options.format, setting_, options.own_outputs)) {
    ++files[source.format];
    add_file(std::move(source));
  }
  files_.shrink_to_fit();
  documents_before_.shrink_to_fit();
  tokens_before_.shrink_to_fit();
  for (const auto& [format, count] : files)
    formats_ += fmt::format("{}{} {}", formats_.empty() ? "" : ", ", count, name_of(format));
  base::require(tokens() > 0, "{}: 0 usable samples: {}", setting_, samples_by_file());
}

std::unique_ptr<DocumentFile> Corpus::open_file(Source source, FileCounts& counts) {
  switch (source.format) {
    case DataFormat::jsonl: return open_jsonl(std::move(source), jsonl_, counts);
    case DataFormat::megatron: return std::make_unique<MegatronFile>(source.path, vocabulary_, mapped_, counts);
    default: return std::make_unique<TextFile>(std::move(source.path), vocabulary_, counts);
  }
}

void Corpus::add_file(Source source) {
  FileCounts counts;
  const DataFormat format = source.format;
  auto file = open_file(std::move(source), counts);
  if (format == DataFormat::megatron) fingerprint_.add_whole(index_of_tokens(file->name()));
  format == DataFormat::jsonl ? fingerprint_.add_whole(file->name()) : fingerprint_.add(file->name());
  add(counts, counts_);
  if (++file_count_ <= files_described) first_samples_.push_back(fmt::format("{}: {}", file->name(), describe(counts)));
  const std::int64_t tokens = file->tokens_before(file->documents());
  if (tokens == 0) return;
  documents_before_.push_back(documents() + file->documents());
  tokens_before_.push_back(this->tokens() + tokens);
  files_.push_back(std::move(file));
}

std::string Corpus::samples_by_file() const {
  std::string text = fmt::format("{}", fmt::join(first_samples_, "; "));
  const auto more = file_count_ - static_cast<std::int64_t>(first_samples_.size());
  if (more > 0) text += fmt::format("; and {} more files; together {}", more, describe(counts_));
  return text;
}

std::int64_t Corpus::tokens_of(std::int64_t document) const {
  const std::size_t file = part_of(documents_before_, document);
  const std::int64_t within = document - documents_before_[file];
  return files_[file]->tokens_before(within + 1) - files_[file]->tokens_before(within);
}

std::string Corpus::description() const {
  return fmt::format("files: {}; {} documents, {} tokens", formats_, base::format_count(documents()),
                     base::format_count(tokens()));
}

void Corpus::read_document(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
                           std::span<std::int64_t> targets) const {
  base::expect(document >= 0 && document < documents(), "document {} of {}", document, documents());
  const std::size_t file = part_of(documents_before_, document);
  const base::DiskWork work("reading", files_[file]->name());
  files_[file]->read(document - documents_before_[file], first, ids, targets);
}

void Corpus::read_stream(std::int64_t first, std::span<std::int64_t> ids, std::span<std::int64_t> targets) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  base::expect(first >= 0 && first + count <= tokens(), "tokens [{}, {}) of {}", first, first + count, tokens());
  std::int64_t done = 0;
  while (done < count) {
    const std::int64_t at = first + done;
    const std::size_t number = part_of(tokens_before_, at);
    const DocumentFile& file = *files_[number];
    const std::int64_t in_file = at - tokens_before_[number];
    const std::int64_t document = file.document_at(in_file);
    const std::int64_t size = std::min(count - done, file.tokens_before(document + 1) - in_file);
    const auto from = static_cast<std::size_t>(done), length = static_cast<std::size_t>(size);
    const base::DiskWork work("reading", file.name());
    file.read(document, in_file - file.tokens_before(document), ids.subspan(from, length),
              targets.subspan(from, length));
    done += size;
  }
}

}  // namespace tessera::data

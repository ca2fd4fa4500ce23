#include "data/megatron_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/disk_work.h"
#include "base/error.h"
#include "base/readable_file.h"

namespace tessera::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and read as it is");

constexpr std::string_view magic("MMIDIDX\0\0", 9);
constexpr std::uint64_t version_at = 9;
constexpr std::uint64_t type_at = 17;
constexpr std::uint64_t sequences_at = 18;
constexpr std::uint64_t documents_at = 26;
constexpr std::uint64_t header_bytes = 34;

// Megatron-Core's DType, in the order of its codes.
enum TypeCode { uint8 = 1, int8, int16, int32, int64, float64, float32, uint16 };
constexpr std::array<std::int64_t, 9> type_bytes{0, 1, 1, 2, 4, 8, 8, 4, 2};

template <class T>
std::int64_t token_at(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<std::int64_t>(value);
}

std::int64_t token_of_type(const std::byte* bytes, int type_code) {
  switch (type_code) {
    case uint8: return token_at<std::uint8_t>(bytes);
    case int8: return token_at<std::int8_t>(bytes);
    case int16: return token_at<std::int16_t>(bytes);
    case uint16: return token_at<std::uint16_t>(bytes);
    case int32: return token_at<std::int32_t>(bytes);
    default: return token_at<std::int64_t>(bytes);
  }
}

template <class T>
T load(const base::MappedFile& index, std::uint64_t offset) {
  T value;
  std::memcpy(&value, index.bytes().data() + offset, sizeof value);
  return value;
}

// Replaces the last four characters, ".bin" or ".idx".
std::string with_ending(std::string path, std::string_view ending) {
  return path.replace(path.size() - ending.size(), ending.size(), ending);
}

}  // namespace

std::string tokens_of_index(const std::string& index) { return with_ending(index, ".bin"); }

std::string index_of_tokens(const std::string& tokens) { return with_ending(tokens, ".idx"); }

MegatronFile::MegatronFile(const std::string& index, std::int64_t vocabulary, MappedFiles& mapped, FileCounts& counts)
    : name_(tokens_of_index(index)), mapped_(mapped), vocabulary_(vocabulary) {
  const base::MappedFile file(index, base::AccessPattern::sequential);
  const base::DiskWork work("reading", index);
  index_bytes_ = file.size();
  token_file_bytes_ = base::ReadableFile(name_).size();
  read_header(file);
  check_sequences(file);
  check_documents(file, counts);
}

MappedFiles::Mapped MegatronFile::map_index() const {
  return mapped_.map(index_of_tokens(name_), index_bytes_, base::AccessPattern::normal);
}

void MegatronFile::read_header(const base::MappedFile& index) {
  const auto& index_name = index.path().native();
  base::require(index.text().starts_with(magic), "{} is no index of Megatron-Core: it does not begin with MMIDIDX",
                index_name);
  base::require(index.size() >= header_bytes, "{} is cut short: it has {} bytes, the header alone {}", index_name,
                index.size(), header_bytes);
  const auto version = load<std::uint64_t>(index, version_at);
  base::require(version == 1, "{} has version {} of the format; only 1 is known", index_name, version);
  type_code_ = load<std::uint8_t>(index, type_at);
  base::require(type_code_ >= uint8 && type_code_ <= uint16, "{} has the unknown type code {}", index_name, type_code_);
  base::require(type_code_ != float32 && type_code_ != float64, "{} holds floating-point numbers, not token ids",
                index_name);
  token_bytes_ = type_bytes[static_cast<std::size_t>(type_code_)];

  // Counts are bounded by the file's size before they are multiplied.
  const auto sequences = load<std::uint64_t>(index, sequences_at);
  const auto entries = load<std::uint64_t>(index, documents_at);
  const std::uint64_t rest = index.size() - header_bytes;
  const bool possible = sequences <= rest / 12 && entries <= rest / 8;
  const std::uint64_t needed = possible ? sequences * 12 + entries * 8 : 0;
  base::require(possible && needed <= rest,
                "{} is cut short: it announces {} sequences and {} document entries, but has {} bytes", index_name,
                sequences, entries, index.size());
  base::require(rest - needed != sequences || sequences == 0,
                "{} is a multimodal data set (it has a mode for each sequence); only text is supported", index_name);
  base::require(rest == needed, "{} has {} bytes too many for {} sequences and {} document entries", index_name,
                rest - needed, sequences, entries);
  base::require(entries >= 1, "{} has no document entries; there must be one more than documents", index_name);
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(entries) - 1;
}

// Checks that sequences follow each other without a gap and fill the .bin; then any run of them is one row of tokens.
void MegatronFile::check_sequences(const base::MappedFile& index) const {
  const auto& index_name = index.path().native();
  const auto bin_bytes = static_cast<std::int64_t>(token_file_bytes_);
  std::int64_t at = 0;
  for (std::int64_t s = 0; s < sequences_; ++s) {
    const auto length = load<std::int32_t>(index, header_bytes + 4 * static_cast<std::uint64_t>(s));
    base::require(length >= 0, "{}: sequence {} has length {}", index_name, s, length);
    base::require(byte_offset(index, s) == at,
                  "{}: sequence {} begins at byte {}, but the ones before it end at byte {}", index_name, s,
                  byte_offset(index, s), at);
    const std::int64_t bytes = length * token_bytes_;
    base::require(bytes <= bin_bytes - at,
                  "{}: sequence {} ends at byte {}, but {} has {} bytes: it is cut short, or not its .bin", index_name,
                  s, at + bytes, name_, bin_bytes);
    at += bytes;
  }
  base::require(at == bin_bytes, "{} has {} bytes, but its index {} describes {}", name_, bin_bytes, index_name, at);
}

void MegatronFile::check_documents(const base::MappedFile& index, FileCounts& counts) {
  const auto& index_name = index.path().native();
  std::int64_t before = 0;
  for (std::int64_t d = 0; d <= documents_; ++d) {
    const std::int64_t first = first_sequence(index, d);
    base::require(first >= before && first <= sequences_ && (d > 0 || first == 0),
                  "{}: document entry {} is sequence {}; entries must rise from 0 to {}", index_name, d, first,
                  sequences_);
    before = first;
  }
  base::require(before == sequences_, "{}: the documents end at sequence {} of {}", index_name, before, sequences_);
  counts = {.read = documents_};
  for (std::int64_t d = 0; d < documents_; ++d) {
    const std::int64_t tokens = tokens_before(index, d + 1) - tokens_before(index, d);
    if (tokens == 0) ++counts.empty;
    counts.labelled += tokens;
    counts.targets += std::max<std::int64_t>(0, tokens - 1);
  }
}

std::int64_t MegatronFile::byte_offset(const base::MappedFile& index, std::int64_t sequence) const {
  if (sequence == sequences_) return static_cast<std::int64_t>(token_file_bytes_);
  return load<std::int64_t>(
      index, header_bytes + 4 * static_cast<std::uint64_t>(sequences_) + 8 * static_cast<std::uint64_t>(sequence));
}

std::int64_t MegatronFile::first_sequence(const base::MappedFile& index, std::int64_t document) const {
  return load<std::int64_t>(
      index, header_bytes + 12 * static_cast<std::uint64_t>(sequences_) + 8 * static_cast<std::uint64_t>(document));
}

std::int64_t MegatronFile::tokens_before(const base::MappedFile& index, std::int64_t document) const {
  const std::int64_t sequence = first_sequence(index, document);
  const bool in_file = sequence >= 0 && sequence <= sequences_;
  const std::int64_t byte = in_file ? byte_offset(index, sequence) : -1;
  if (byte < 0 || byte > static_cast<std::int64_t>(token_file_bytes_))
    throw base::Error(base::ExitCode::rank_failed, index.path().native() + " changed while it was in use");
  return byte / token_bytes_;
}

std::int64_t MegatronFile::tokens_before(std::int64_t document) const {
  if (document == documents_) return static_cast<std::int64_t>(token_file_bytes_) / token_bytes_;
  return tokens_before(*map_index(), document);
}

std::int64_t MegatronFile::document_at(std::int64_t at) const {
  const auto index = map_index();
  return document_holding(at, documents_, [&](std::int64_t document) { return tokens_before(*index, document); });
}

void MegatronFile::read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
                        std::span<std::int64_t> targets) const {
  const auto index = map_index();
  const std::int64_t begin = tokens_before(*index, document) + first;
  base::expect(first >= 0 && begin + std::ssize(ids) <= tokens_before(*index, document + 1),
               "tokens [{}, {}) of document {} in {}", first, first + std::ssize(ids), document, name_);
  const auto tokens = mapped_.map(name_, token_file_bytes_, base::AccessPattern::random);
  const std::byte* bytes = tokens->bytes().data() + begin * token_bytes_;
  for (std::size_t i = 0; i < ids.size(); ++i, bytes += token_bytes_) {
    const std::int64_t id = token_of_type(bytes, type_code_);
    base::require(id >= 0 && id < vocabulary_,
                  "{}: document {}, token {}: id {} is outside the vocabulary: ids go from 0 to {}", name_, document,
                  first + static_cast<std::int64_t>(i), id, vocabulary_ - 1);
    ids[i] = id;
  }
  std::copy(ids.begin(), ids.end(), targets.begin());
  require_unchanged(name_, token_file_bytes_);
  require_unchanged(index_of_tokens(name_), index_bytes_);
}

}  // namespace tessera::data

#include "data/megatron_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"

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

std::filesystem::path tokens_path(std::filesystem::path index) { return index.replace_extension(".bin"); }

}  // namespace

MegatronFile::MegatronFile(const std::filesystem::path& index, std::int64_t vocabulary)
    : name_(tokens_path(index).string()),
      index_name_(index.string()),
      vocabulary_(vocabulary),
      index_(index),
      tokens_(name_, base::AccessPattern::random) {
  read_header();
  check_sequences();
  check_documents();
}

template <class T>
T MegatronFile::load(std::uint64_t offset) const {
  T value;
  std::memcpy(&value, index_.bytes().data() + offset, sizeof value);
  return value;
}

void MegatronFile::read_header() {
  base::require(index_.text().starts_with(magic), "{}: not an index of Megatron-Core: it does not begin with MMIDIDX",
                index_name_);
  base::require(index_.size() >= header_bytes, "{}: cut short: {} bytes, the header alone has {}", index_name_,
                index_.size(), header_bytes);
  const auto version = load<std::uint64_t>(version_at);
  base::require(version == 1, "{}: version {} of the format, only 1 is known", index_name_, version);
  type_code_ = load<std::uint8_t>(type_at);
  base::require(type_code_ >= uint8 && type_code_ <= uint16, "{}: unknown type code {}", index_name_, type_code_);
  base::require(type_code_ != float32 && type_code_ != float64, "{}: holds floating-point numbers, not token ids",
                index_name_);
  token_bytes_ = type_bytes[static_cast<std::size_t>(type_code_)];

  // Counts are bounded by the file's size before they are multiplied.
  const auto sequences = load<std::uint64_t>(sequences_at);
  const auto entries = load<std::uint64_t>(documents_at);
  const std::uint64_t rest = index_.size() - header_bytes;
  const bool possible = sequences <= rest / 12 && entries <= rest / 8;
  const std::uint64_t needed = possible ? sequences * 12 + entries * 8 : 0;
  base::require(possible && needed <= rest,
                "{}: cut short: it announces {} sequences and {} document entries, but has {} bytes", index_name_,
                sequences, entries, index_.size());
  base::require(rest - needed != sequences || sequences == 0,
                "{}: a multimodal data set (it has a mode for each sequence); only text is supported", index_name_);
  base::require(rest == needed, "{}: {} bytes too many for {} sequences and {} document entries", index_name_,
                rest - needed, sequences, entries);
  base::require(entries >= 1, "{}: no document entries; there must be one more than documents", index_name_);
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(entries) - 1;
}

// Sequences follow each other without gap and fill the .bin: so any run of them is one row of tokens.
void MegatronFile::check_sequences() const {
  const auto bin_bytes = static_cast<std::int64_t>(tokens_.size());
  std::int64_t at = 0;
  for (std::int64_t s = 0; s < sequences_; ++s) {
    const auto length = load<std::int32_t>(header_bytes + 4 * static_cast<std::uint64_t>(s));
    base::require(length >= 0, "{}: sequence {} has length {}", index_name_, s, length);
    base::require(byte_offset(s) == at, "{}: sequence {} begins at byte {}, but the ones before it end at byte {}",
                  index_name_, s, byte_offset(s), at);
    const std::int64_t bytes = length * token_bytes_;
    base::require(bytes <= bin_bytes - at,
                  "{}: sequence {} ends at byte {}, but {} has {} bytes: cut short, or not its .bin", index_name_, s,
                  at + bytes, name_, bin_bytes);
    at += bytes;
  }
  base::require(at == bin_bytes, "{} has {} bytes, but its index {} describes {}", name_, bin_bytes, index_name_, at);
}

void MegatronFile::check_documents() {
  std::int64_t before = 0;
  for (std::int64_t d = 0; d <= documents_; ++d) {
    const std::int64_t first = first_sequence(d);
    base::require(first >= before && first <= sequences_ && (d > 0 || first == 0),
                  "{}: document entry {} is sequence {}; entries must rise from 0 to {}", index_name_, d, first,
                  sequences_);
    before = first;
  }
  base::require(before == sequences_, "{}: the documents end at sequence {} of {}", index_name_, before, sequences_);
  counts_.read = documents_;
  for (std::int64_t d = 0; d < documents_; ++d) {
    const std::int64_t tokens = tokens_before(d + 1) - tokens_before(d);
    if (tokens == 0) ++counts_.empty;
    counts_.labelled += tokens;
    counts_.targets += std::max<std::int64_t>(0, tokens - 1);
  }
}

std::int64_t MegatronFile::byte_offset(std::int64_t sequence) const {
  if (sequence == sequences_) return static_cast<std::int64_t>(tokens_.size());
  return load<std::int64_t>(header_bytes + 4 * static_cast<std::uint64_t>(sequences_) +
                            8 * static_cast<std::uint64_t>(sequence));
}

std::int64_t MegatronFile::first_sequence(std::int64_t document) const {
  return load<std::int64_t>(header_bytes + 12 * static_cast<std::uint64_t>(sequences_) +
                            8 * static_cast<std::uint64_t>(document));
}

std::int64_t MegatronFile::tokens_before(std::int64_t document) const {
  return byte_offset(first_sequence(document)) / token_bytes_;
}

void MegatronFile::read(std::int64_t document, std::int64_t first, std::span<std::int64_t> ids,
                        std::span<std::int64_t> targets) const {
  const std::int64_t begin = tokens_before(document) + first;
  base::expect(first >= 0 && begin + static_cast<std::int64_t>(ids.size()) <= tokens_before(document + 1),
               "tokens [{}, {}) of document {} in {}", first, first + static_cast<std::int64_t>(ids.size()), document,
               name_);
  const std::byte* bytes = tokens_.bytes().data() + begin * token_bytes_;
  for (std::size_t i = 0; i < ids.size(); ++i, bytes += token_bytes_) {
    const std::int64_t id = token_of_type(bytes, type_code_);
    base::require(id >= 0 && id < vocabulary_,
                  "{}: document {}, token {}: id {} is outside the vocabulary: ids go from 0 to {}", name_, document,
                  first + static_cast<std::int64_t>(i), id, vocabulary_ - 1);
    ids[i] = id;
  }
  std::copy(ids.begin(), ids.end(), targets.begin());
}

}  // namespace tessera::data

#include "data/file_kind.h"

#include <array>
#include <bit>
#include <cstring>

namespace tessera::data {
namespace {

using namespace std::string_view_literals;

static_assert(std::endian::native == std::endian::little, "the length of a safetensors header is read as it is");

struct Signature {
  std::string_view bytes;
  BinaryKind kind;
};

constexpr std::string_view as_jsonl = "write its documents as JSONL (to_json of Python's datasets does it)";
constexpr std::string_view as_ids = "write its ids as JSONL (input_ids) or as a pair .bin and .idx";
constexpr std::string_view left_out = "leave it out by naming the other files";

constexpr std::array signatures{
    Signature{"\x1F\x8B"sv, {"gzip data", "unpack it (gunzip)"}},
    Signature{"\x28\xB5\x2F\xFD"sv, {"zstd data", "unpack it (zstd -d)"}},
    Signature{"\xFD"
              "7zXZ\0"sv,
              {"xz data", "unpack it (xz -d)"}},
    Signature{"\x04\x22\x4D\x18"sv, {"lz4 data", "unpack it (lz4 -d)"}},
    Signature{"PK\x03\x04"sv, {"a zip archive", "unpack it (unzip), or leave it out if it is a program's own file"}},
    Signature{"PK\x05\x06"sv, {"a zip archive", left_out}},
    Signature{"7z\xBC\xAF\x27\x1C"sv, {"a 7-zip archive", "unpack it"}},
    // "PAR1" is followed by the first byte of a Thrift structure in every such file.
    Signature{"PAR1\x15"sv, {"parquet", as_jsonl}},
    Signature{"ARROW1\0"sv, {"an arrow file", as_jsonl}},
    Signature{"\xFF\xFF\xFF\xFF"sv, {"an arrow stream", as_jsonl}},
    Signature{"\x93NUMPY"sv, {"a numpy array", as_ids}},
    Signature{"\x89HDF\r\n\x1A\n"sv, {"HDF5", as_ids}},
    Signature{"\x7F"
              "ELF"sv,
              {"a program (ELF)", left_out}},
    Signature{"\x89PNG\r\n\x1A\n"sv, {"a PNG image", left_out}},
    Signature{"\xFF\xD8\xFF"sv, {"a JPEG image", left_out}},
    Signature{"%PDF-"sv, {"a PDF document", "write its text into a file"}},
    Signature{"SQLite format 3\0"sv, {"an SQLite database", as_jsonl}},
};

constexpr BinaryKind bzip2{"bzip2 data", "unpack it (bunzip2)"};
constexpr BinaryKind safetensors{"safetensors", left_out};
constexpr BinaryKind with_zeros{"no text: it has zero bytes", left_out};

// A text may begin with "BZh1"; in bzip2 data, the magic number of a block or of the end of the stream follows.
bool is_bzip2(std::string_view start) {
  return start.size() > 4 && start.starts_with("BZh") &&
         (start.substr(4).starts_with("1AY&SY") || start.substr(4).starts_with("\x17\x72\x45\x38\x50\x90"));
}

// The file begins with the length of a header, for which it has room, and the header. The first eight bytes of a text,
// read as a number, are larger than any file.
bool is_safetensors(std::string_view start, std::uint64_t file_size) {
  std::uint64_t header = 0;
  if (start.size() < sizeof header + 2) return false;
  std::memcpy(&header, start.data(), sizeof header);
  return header >= 2 && header <= file_size - sizeof header && start[sizeof header] == '{';
}

}  // namespace

const BinaryKind* known_binary(std::string_view start, std::uint64_t file_size) {
  for (const auto& signature : signatures)
    if (start.starts_with(signature.bytes)) return &signature.kind;
  if (is_bzip2(start)) return &bzip2;
  return is_safetensors(start, file_size) ? &safetensors : nullptr;
}

const BinaryKind* any_binary(std::string_view start, std::uint64_t file_size) {
  const BinaryKind* const known = known_binary(start, file_size);
  return known == nullptr && start.find('\0') != std::string_view::npos ? &with_zeros : known;
}

}  // namespace tessera::data

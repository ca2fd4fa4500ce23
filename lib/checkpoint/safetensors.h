// The safetensors format (https://huggingface.co/docs/safetensors): 8 bytes with the header's length, a JSON header
// with every tensor's type, shape and byte range, then the bytes. Files of others are untrusted: every number of the
// header is checked against the file before any of it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace tessera::checkpoint {

// Element types of the format, by its own names.
enum class ElementType : std::uint8_t {
  BOOL,
  F4,
  F6_E2M3,
  F6_E3M2,
  U8,
  I8,
  F8_E5M2,
  F8_E4M3,
  F8_E8M0,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  C64,
  F64,
  I64,
  U64
};

// "BF16".
[[nodiscard]] std::string_view name(ElementType type);

// Bits of one element; F4 and F6 are narrower than a byte.
[[nodiscard]] std::uint64_t bits(ElementType type);

struct StoredTensor {
  std::string name;
  ElementType type{};
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the file's data part
  std::uint64_t end = 0;
};

// A longer header is refused, as the format's own library does.
inline constexpr std::uint64_t header_limit = 100'000'000;

// One file, memory-mapped. Move-only; pointers to its tensors and their bytes live as long as it does.
class SafetensorsFile {
 public:
  // Error(bad_input) naming file, tensor and reason for: a file shorter than it says, a header too long or not JSON, a
  // name twice, an unknown type, a shape whose size overflows or differs from its byte range, byte ranges that overlap,
  // leave a hole, or do not end where the file ends.
  explicit SafetensorsFile(const base::Path& path);

  [[nodiscard]] const base::Path& path() const { return file_.path(); }
  // Of the whole file, and of all that stands before its data.
  [[nodiscard]] std::uint64_t size() const { return file_.size(); }
  [[nodiscard]] std::span<const std::byte> header() const { return file_.bytes().first(file_.size() - data_.size()); }
  // In the order of their bytes.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Null if there is none of that name.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  // Content of `tensor`, row-major, little-endian. The start need not be aligned. Precondition: `tensor` is this
  // file's.
  [[nodiscard]] std::span<const std::byte> bytes(const StoredTensor& tensor) const;
  // Asks the kernel for the `count` bytes of data from byte `begin` on, as far as there are any: they are going to be
  // read. Returns at once.
  void prefetch(std::uint64_t begin, std::uint64_t count) const;
  // The header's "__metadata__".
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  base::MappedFile file_;
  std::span<const std::byte> data_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tessera::checkpoint

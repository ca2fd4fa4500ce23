// Reads the safetensors format (https://huggingface.co/docs/safetensors): 8 bytes with the header's length, a JSON
// header with every tensor's type, shape and byte range, then the bytes of the tensors. Files are untrusted: every
// number of the header is checked against the file before it is used.
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

// The element types of the format, under its own names.
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

// One memory-mapped file. Move-only; pointers to its tensors and their bytes live as long as the object.
class SafetensorsFile {
 public:
  // Throws Error(bad_input) naming file, tensor and reason if the file is shorter than its header says, the header is
  // too long or not JSON, a name occurs twice, a type is unknown, the size of a shape overflows or differs from its
  // byte range, or the byte ranges overlap, leave a hole, or do not end where the file ends.
  explicit SafetensorsFile(const base::Path& path);

  [[nodiscard]] const base::Path& path() const { return file_.path(); }
  // The size of the whole file, in bytes.
  [[nodiscard]] std::uint64_t size() const { return file_.size(); }
  // All bytes before the data: the length of the header and the header.
  [[nodiscard]] std::span<const std::byte> header() const { return file_.bytes().first(file_.size() - data_.size()); }
  // The tensors, in the order of their bytes.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Returns the tensor of that name, or null.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  // Returns the content of `tensor`, row-major and little-endian; its start may be unaligned. Precondition: the tensor
  // is one of this file.
  [[nodiscard]] std::span<const std::byte> bytes(const StoredTensor& tensor) const;
  // Asks the kernel to read `count` bytes of data ahead, from byte `begin` on, up to the end of the file. Returns at
  // once.
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

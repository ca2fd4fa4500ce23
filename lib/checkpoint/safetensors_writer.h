// Writes one file of the safetensors format (see safetensors.h) from front to back, so that only the caller's own piece
// is in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/safetensors.h"

namespace tessera::checkpoint {

struct OutgoingTensor {
  std::string name;
  ElementType type{};
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::uint64_t bytes() const;
};

// Size and hashes of a written file, for the manifest.
struct WrittenFile {
  std::uint64_t bytes = 0;
  std::uint64_t header_hash = 0;      // XXH3 of all bytes before the data
  std::vector<std::uint64_t> hashes;  // XXH3 of each tensor's bytes
};

// The content of the file is durable, and the file may be read, once finish() has returned. Throws the errors of
// `files`.
class SafetensorsWriter {
 public:
  // Replaces `path`. The file has the data in the order of `tensors`, whose names must differ; `metadata` is the
  // header's "__metadata__". Throws Error(bad_input) if the header is longer than readers accept.
  SafetensorsWriter(const base::Path& path, std::vector<OutgoingTensor> tensors,
                    const std::map<std::string, std::string>& metadata,
                    base::FileSystem& files = base::posix_file_system());

  // Writes the next bytes of the data, row-major and little-endian; they may end within a tensor or reach into the
  // next.
  void write(std::span<const std::byte> bytes);
  // Syncs and closes the file. Precondition: every byte of every tensor has been written.
  [[nodiscard]] WrittenFile finish();

 private:
  void end_tensors_without_rest();

  std::vector<OutgoingTensor> tensors_;
  std::unique_ptr<base::WritableFile> file_;
  WrittenFile written_;
  base::Xxh3Stream hash_;   // of the tensor that is being written
  std::uint64_t rest_ = 0;  // its bytes that are still to come
};

}  // namespace tessera::checkpoint

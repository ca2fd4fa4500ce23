// Memory for buffers. The GPU's part is in cuda/memory.cpp or no_cuda/memory.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/place.h"
#include "device/stream.h"

namespace tessera::device {

// host: ordinary CPU memory. pinned: CPU memory that the GPU can read and write itself while the host goes on. cuda:
// GPU memory.
enum class MemoryKind : std::uint8_t { host, pinned, cuda };

[[nodiscard]] MemoryKind memory_of(Place place);

struct ReleaseMemory {
  MemoryKind kind = MemoryKind::host;
  void operator()(std::byte* memory) const;
};
// Freeing GPU or pinned memory waits for the work under way on the GPU; while an exception propagates, such memory is
// not freed.
using Memory = std::unique_ptr<std::byte[], ReleaseMemory>;

// Allocates at least `bytes` of undefined content, aligned to 64 bytes (on the GPU to 256). Throws Error(bad_input) if
// there is not enough memory.
[[nodiscard]] Memory allocate(MemoryKind kind, std::int64_t bytes);

// Sets every byte of `memory` to `byte`; GPU memory in the order of Stream::compute().
void fill(Place place, void* memory, int byte, std::int64_t bytes);

// Copies `rows` rows of `row_bytes` bytes in the order of `stream`. Rows begin `from_stride` and `to_stride` bytes
// apart. `from` and `to` may be GPU or pinned memory, which must stay valid until the stream has passed the copy.
void copy_rows(void* to, std::int64_t to_stride, const void* from, std::int64_t from_stride, std::int64_t row_bytes,
               std::int64_t rows, const Stream& stream);

}  // namespace tessera::device

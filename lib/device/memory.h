// Memory for buffers, by place. cuda/memory.cpp or no_cuda/memory.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/place.h"
#include "device/stream.h"

namespace tessera::device {

// host: of the CPU. pinned: of the CPU too, and the GPU reads and writes it by itself, while the host goes on. cuda: of
// the GPU.
enum class MemoryKind : std::uint8_t { host, pinned, cuda };

[[nodiscard]] MemoryKind memory_of(Place place);

struct ReleaseMemory {
  MemoryKind kind = MemoryKind::host;
  void operator()(std::byte* memory) const;
};
// Freeing memory of the GPU, or pinned memory, waits for what is under way there; while an exception passes it is not
// freed.
using Memory = std::unique_ptr<std::byte[], ReleaseMemory>;

// At least `bytes`, aligned to 64 (GPU: 256), of undefined content. Throws Error(bad_input) if there is not so much.
[[nodiscard]] Memory allocate(MemoryKind kind, std::int64_t bytes);

// Sets every byte; of the GPU's memory in the order of Stream::compute().
void fill(Place place, void* memory, int byte, std::int64_t bytes);

// `rows` runs of `row_bytes` each, whose starts are so many bytes apart, from or to any kind of memory, in the order of
// `stream`. Host memory must be pinned, and stay until the stream has come so far.
void copy_rows(void* to, std::int64_t to_stride, const void* from, std::int64_t from_stride, std::int64_t row_bytes,
               std::int64_t rows, const Stream& stream);

}  // namespace tessera::device

// The GPU's part of memory.cpp, implemented in cuda/memory.cpp or no_cuda/memory.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/memory.h"

namespace tessera::device {

// Allocates pinned or cuda memory; returns null if there is not enough. Precondition: `kind` is not host, bytes > 0.
[[nodiscard]] std::byte* allocate_for_gpu(MemoryKind kind, std::int64_t bytes);
void release_for_gpu(MemoryKind kind, std::byte* memory);
void fill_on_gpu(void* memory, int byte, std::int64_t bytes);

}  // namespace tessera::device

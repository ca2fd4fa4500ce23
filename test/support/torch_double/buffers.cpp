// Buffers of the double in place of the GPU's (device/memory_gpu.h, device/memory.h), for binding to tensors.
#include <cstdlib>
#include <cstring>
#include <new>

#include "device/memory.h"
#include "device/memory_gpu.h"
#include "support/torch_double/torch_double.h"

namespace tessera::device {

namespace {

void* for_host(const void* memory) {
  return test::torch_double::is_device_memory(memory) ? test::torch_double::alias_of(memory)
                                                      : const_cast<void*>(memory);
}

}  // namespace

std::byte* allocate_for_gpu(MemoryKind kind, std::int64_t bytes) {
  if (kind == MemoryKind::pinned)
    return static_cast<std::byte*>(std::aligned_alloc(64, static_cast<std::size_t>(bytes)));  // a multiple of 64
  try {
    return static_cast<std::byte*>(test::torch_double::device_allocate(static_cast<std::size_t>(bytes)));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void release_for_gpu(MemoryKind kind, std::byte* memory) {
  if (kind == MemoryKind::pinned)
    std::free(memory);
  else
    test::torch_double::device_free(memory);
}

void fill_on_gpu(void* memory, int byte, std::int64_t bytes) {
  std::memset(for_host(memory), byte, static_cast<std::size_t>(bytes));
}

void copy_rows(void* to, std::int64_t to_stride, const void* from, std::int64_t from_stride, std::int64_t row_bytes,
               std::int64_t rows, const Stream&) {
  auto* target = static_cast<std::byte*>(for_host(to));
  const auto* source = static_cast<const std::byte*>(for_host(from));
  for (std::int64_t row = 0; row < rows; ++row)
    std::memcpy(target + row * to_stride, source + row * from_stride, static_cast<std::size_t>(row_bytes));
}

}  // namespace tessera::device

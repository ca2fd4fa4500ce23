#include "device/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/quantity.h"
#include "device/memory_gpu.h"

namespace tessera::device {

namespace {

constexpr std::int64_t alignment = 64;  // a line of the cache

std::byte* allocate_on_host(std::int64_t bytes) {
  return static_cast<std::byte*>(std::aligned_alloc(alignment, static_cast<std::size_t>(bytes)));
}

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::host: return "memory";
    case MemoryKind::pinned: return "pinned memory";
    case MemoryKind::cuda: return "GPU memory";
  }
  return "memory";
}

}  // namespace

MemoryKind memory_of(Place place) { return place == Place::cuda ? MemoryKind::cuda : MemoryKind::host; }

void ReleaseMemory::operator()(std::byte* memory) const {
  if (kind == MemoryKind::host)
    std::free(memory);
  else
    release_for_gpu(kind, memory);
}

Memory allocate(MemoryKind kind, std::int64_t bytes) {
  base::expect(bytes >= 0, "{} bytes of memory", bytes);
  const auto rounded = std::max((bytes + alignment - 1) / alignment, std::int64_t{1}) * alignment;
  auto* memory = kind == MemoryKind::host ? allocate_on_host(rounded) : allocate_for_gpu(kind, rounded);
  base::require(memory != nullptr,
                "not enough {} for a buffer of {}; use a smaller model, more ranks, or fsdp_mode fsdp2", name_of(kind),
                base::format_bytes(static_cast<std::uint64_t>(bytes)));
  return Memory(memory, ReleaseMemory{kind});
}

void fill(Place place, void* memory, int byte, std::int64_t bytes) {
  if (bytes == 0) return;
  if (place == Place::cpu)
    std::memset(memory, byte, static_cast<std::size_t>(bytes));
  else
    fill_on_gpu(memory, byte, bytes);
}

}  // namespace tessera::device

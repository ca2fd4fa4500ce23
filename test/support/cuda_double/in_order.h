// Lets a stand-in for LibTorch compute on the host, at once, operations that would run on the default stream.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "support/cuda_double/byte_range.h"

namespace tessera::test {

// Allocates device memory like cudaMalloc; null if there is not enough.
[[nodiscard]] void* allocate_device_memory(std::size_t bytes);
// Frees memory as LibTorch's allocator does: for reuse on the default stream. Reports a fault if accesses by other
// streams are not ordered before. Ignores null.
void free_in_order(void* memory);

struct DeviceMemory {
  const std::byte* begin = nullptr;  // null: the address is in no allocation
  std::size_t bytes = 0;
};
[[nodiscard]] DeviceMemory device_memory_at(const void* address);

// Waits until the default stream has done all that it was given; then the caller performs the operation itself. The
// accesses are checked as those of an operation of that stream. The host learns nothing from this wait.
void wait_for_turn(std::string_view operation, std::vector<ByteRange> reads, std::vector<ByteRange> writes);
// Records that the host has waited for the default stream, as it does for a copy to its own memory.
void host_has_waited();

}  // namespace tessera::test

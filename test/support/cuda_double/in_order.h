// For a stand-in for LibTorch that computes at once, on the host, what would run on the default stream.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "support/cuda_double/byte_range.h"

namespace tessera::test {

// Memory of the device, as cudaMalloc gives; null if there is not so much.
[[nodiscard]] void* allocate_device_memory(std::size_t bytes);
// As LibTorch's allocator frees it: for whoever takes it next on the default stream. A fault if what other streams do
// with it is not ordered before. null: nothing.
void free_in_order(void* memory);

struct DeviceMemory {
  const std::byte* begin = nullptr;  // null: the address is in none
  std::size_t bytes = 0;
};
[[nodiscard]] DeviceMemory device_memory_at(const void* address);

// Returns when the default stream has done what it was given: then the caller does the operation itself. Its accesses
// are checked as those of an operation of that stream. The host learns nothing by it.
void wait_for_turn(std::string_view operation, std::vector<ByteRange> reads, std::vector<ByteRange> writes);
// The host has waited for the default stream, as it does for a copy to its own memory.
void host_has_waited();

}  // namespace tessera::test

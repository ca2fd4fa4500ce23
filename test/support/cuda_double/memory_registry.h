// The memory that the GPU may touch: the allocations of cudaMalloc and cudaHostAlloc.
//
// Memory is filled with bytes 0xFF, which are NaN in every floating type, when it is allocated and when it is freed. A
// write behind its end is detected. Freed memory is kept for a while, so that a stream that still writes there does no
// harm. Callers hold the lock of the runtime.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "support/cuda_double/access_order.h"

namespace tessera::test::cuda_double {

enum class AllocationKind : std::uint8_t { device, pinned };

struct FreeStorage {
  void operator()(std::byte* storage) const;
};

struct Allocation {
  std::size_t number = 0;  // counts all allocations from 1
  AllocationKind kind{};
  int device = 0;
  std::size_t bytes = 0;
  std::unique_ptr<std::byte[], FreeStorage> storage;
  AccessHistory accesses;

  // "allocation 3 (64 bytes of device memory)".
  [[nodiscard]] std::string name() const;
  // Returns whether a byte behind the end was written.
  [[nodiscard]] bool overrun() const;
};

class MemoryRegistry {
 public:
  // Returns null if there is not enough memory.
  [[nodiscard]] std::byte* allocate(AllocationKind kind, int device, std::size_t bytes);
  // Removes and returns the allocation that begins there.
  [[nodiscard]] std::optional<Allocation> remove(const void* begin);
  // Fills a removed allocation with NaN and keeps it for a while.
  void bury(Allocation allocation);

  // Returns the allocation that holds the address; null if none does.
  [[nodiscard]] Allocation* at(const std::byte* address);
  // Says why `range`, which is not empty, does not lie in one allocation: "the range of 16 bytes ends 4 bytes behind
  // allocation 3 (...)"; "" if it does.
  [[nodiscard]] std::string why_not(const ByteRange& range);

  // Counts device memory only.
  [[nodiscard]] std::size_t bytes_in_use(int device) const;
  std::size_t device_bytes = std::size_t{1} << 30;

 private:
  std::map<const std::byte*, Allocation> allocations_;
  std::deque<Allocation> freed_;
  std::size_t freed_bytes_ = 0;
  std::size_t given_out_ = 0;
};

}  // namespace tessera::test::cuda_double

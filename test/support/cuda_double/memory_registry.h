// The memory that the GPU may touch: what cudaMalloc and cudaHostAlloc gave out.
//
// Filled with bytes 0xFF, which are NaN in every floating type, when it is given out and when it is freed. The bytes
// behind the end are watched. Freed memory is kept for a while, so that a stream that still writes there harms nobody.
// Under the lock of the runtime.
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
  std::size_t number = 0;  // from 1, of all
  AllocationKind kind{};
  int device = 0;
  std::size_t bytes = 0;
  std::unique_ptr<std::byte[], FreeStorage> storage;
  AccessHistory accesses;

  // "allocation 3 (64 bytes of device memory)".
  [[nodiscard]] std::string name() const;
  // Whether a byte behind the end was written.
  [[nodiscard]] bool overrun() const;
};

class MemoryRegistry {
 public:
  // Null if there is not so much.
  [[nodiscard]] std::byte* allocate(AllocationKind kind, int device, std::size_t bytes);
  // The allocation that begins there, no longer registered.
  [[nodiscard]] std::optional<Allocation> remove(const void* begin);
  // Keeps what was removed, filled with NaN.
  void bury(Allocation allocation);

  // That holds the address; null if none does.
  [[nodiscard]] Allocation* at(const std::byte* address);
  // Why `range`, which is not empty, does not lie in one allocation: "the range of 16 bytes ends 4 bytes behind
  // allocation 3 (...)"; "" if it does.
  [[nodiscard]] std::string why_not(const ByteRange& range);

  // Of device memory.
  [[nodiscard]] std::size_t bytes_in_use(int device) const;
  std::size_t device_bytes = std::size_t{1} << 30;

 private:
  std::map<const std::byte*, Allocation> allocations_;
  std::deque<Allocation> freed_;
  std::size_t freed_bytes_ = 0;
  std::size_t given_out_ = 0;
};

}  // namespace tessera::test::cuda_double

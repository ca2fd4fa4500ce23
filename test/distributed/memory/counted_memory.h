// Counts this process's allocations: tensors through LibTorch's CPU allocator, which it wraps, and slots of pools
// through aligned_alloc, which it replaces by a counting one.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::test {

struct CountedMemory {
  std::int64_t live_tensor_bytes = 0;        // allocated since the start and not yet freed
  std::int64_t peak_tensor_bytes = 0;        // the most that was live at once
  std::vector<std::int64_t> tensors, slots;  // bytes of each allocation since the start, in order

  [[nodiscard]] std::int64_t largest_tensor() const;
  [[nodiscard]] std::int64_t slot_bytes() const;
};

// Counts while it lives; one object at a time.
class MemoryCount {
 public:
  MemoryCount();
  ~MemoryCount();
  MemoryCount(const MemoryCount&) = delete;
  MemoryCount& operator=(const MemoryCount&) = delete;

  [[nodiscard]] CountedMemory so_far() const;
};

}  // namespace tessera::test

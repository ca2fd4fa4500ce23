// What this process really asks its allocators for: tensors from LibTorch's CPU allocator, which is wrapped, and slots
// of pools from aligned_alloc, which this program replaces by a counting one.
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

// Counts from its construction to its end, one at a time.
class MemoryCount {
 public:
  MemoryCount();
  ~MemoryCount();
  MemoryCount(const MemoryCount&) = delete;
  MemoryCount& operator=(const MemoryCount&) = delete;

  [[nodiscard]] CountedMemory so_far() const;
};

}  // namespace tessera::test

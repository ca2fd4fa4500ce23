#include "counted_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace tessera::test {
namespace {

// Guarded, because kernels allocate on several threads. Counts only while someone counts.
struct Count {
  std::mutex mutex;
  bool is_on = false;
  std::int64_t round = 0;  // of MemoryCount: what was allocated in an earlier one is not live in this one
  CountedMemory memory;
};

Count& count() {
  static Count the_count;
  return the_count;
}

thread_local bool is_counting = false;  // the vectors below may allocate too

void note_slot(std::size_t bytes) {
  if (is_counting) return;
  is_counting = true;
  {
    const std::lock_guard lock(count().mutex);
    if (count().is_on) count().memory.slots.push_back(static_cast<std::int64_t>(bytes));
  }
  is_counting = false;
}

struct Allocation {
  c10::DataPtr memory;
  std::int64_t bytes = 0, round = 0;  // round 0: not counted
};

void release(void* context) {
  const std::unique_ptr<Allocation> allocation(static_cast<Allocation*>(context));
  const std::lock_guard lock(count().mutex);
  if (count().is_on && allocation->round == count().round) count().memory.live_tensor_bytes -= allocation->bytes;
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& inner) : inner_(inner) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    auto allocation = std::make_unique<Allocation>();
    allocation->memory = inner_.allocate(bytes);
    allocation->bytes = static_cast<std::int64_t>(bytes);
    {
      const std::lock_guard lock(count().mutex);
      if (count().is_on) {
        allocation->round = count().round;
        auto& memory = count().memory;
        memory.live_tensor_bytes += allocation->bytes;
        memory.peak_tensor_bytes = std::max(memory.peak_tensor_bytes, memory.live_tensor_bytes);
        memory.tensors.push_back(allocation->bytes);
      }
    }
    auto* data = allocation->memory.get();
    const auto device = allocation->memory.device();
    return {data, allocation.release(), &release, device};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  c10::Allocator& inner_;
};

// Stays for good: tensors may outlive who counts them.
void wrap_allocator_once() {
  static CountingAllocator allocator(*c10::GetCPUAllocator());
  if (c10::GetCPUAllocator() != &allocator) c10::SetCPUAllocator(&allocator, 255);
  base::expect(c10::GetCPUAllocator() == &allocator, "the allocator was replaced");
}

}  // namespace

std::int64_t CountedMemory::largest_tensor() const {
  return tensors.empty() ? 0 : *std::max_element(tensors.begin(), tensors.end());
}

std::int64_t CountedMemory::slot_bytes() const { return std::accumulate(slots.begin(), slots.end(), std::int64_t{0}); }

MemoryCount::MemoryCount() {
  wrap_allocator_once();
  const std::lock_guard lock(count().mutex);
  base::expect(!count().is_on, "memory is counted already");
  count().is_on = true;
  ++count().round;
  count().memory = {};
}

MemoryCount::~MemoryCount() {
  const std::lock_guard lock(count().mutex);
  count().is_on = false;
}

CountedMemory MemoryCount::so_far() const {
  const std::lock_guard lock(count().mutex);
  return count().memory;
}

}  // namespace tessera::test

// Replaces the C library's function: BufferPool allocates its slots with it.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  tessera::test::note_slot(bytes);
  void* memory = nullptr;
  return posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) == 0 ? memory : nullptr;
}

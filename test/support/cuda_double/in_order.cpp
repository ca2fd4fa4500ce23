#include "support/cuda_double/in_order.h"

#include <optional>
#include <utility>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/runtime.h"

namespace tessera::test {

using cuda_double::AllocationKind;
using cuda_double::report_fault;
using cuda_double::runtime;

void* allocate_device_memory(std::size_t bytes) {
  const std::lock_guard lock(runtime().mutex);
  return runtime().memory.allocate(AllocationKind::device, cuda_double::current_device(), bytes);
}

void free_in_order(void* memory) {
  if (memory == nullptr) return;
  wait_for_turn("free", {}, {bytes_of(memory, device_memory_at(memory).bytes)});
  const std::lock_guard lock(runtime().mutex);
  auto allocation = runtime().memory.remove(memory);
  if (!allocation) return report_fault("LibTorch frees what is no memory of the device");
  if (allocation->overrun()) report_fault("something wrote behind the end of " + allocation->name());
  runtime().memory.bury(std::move(*allocation));
}

DeviceMemory device_memory_at(const void* address) {
  const std::lock_guard lock(runtime().mutex);
  const auto* allocation = runtime().memory.at(static_cast<const std::byte*>(address));
  if (allocation == nullptr || allocation->kind != AllocationKind::device) return {};
  return {allocation->storage.get(), allocation->bytes};
}

void wait_for_turn(std::string_view operation, std::vector<ByteRange> reads, std::vector<ByteRange> writes) {
  std::shared_ptr<cuda_double::Passage> turn;
  {
    const std::lock_guard lock(runtime().mutex);
    auto& stream = *runtime().stream_of(nullptr, operation);
    runtime().before_use(stream, operation);
    runtime().issue(stream, {{std::string(operation), std::move(reads), std::move(writes)}}, runtime().host(), [] {});
    turn = stream.mark();
  }
  turn->wait();
}

void host_has_waited() {
  const std::lock_guard lock(runtime().mutex);
  runtime().host_knows(runtime().stream_of(nullptr, "a wait of the host")->clock,
                       cuda_double::Runtime::Knows::all_threads);
}

}  // namespace tessera::test

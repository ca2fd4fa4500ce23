#include <cstdio>
#include <cstdlib>

#include "support/torch_double/backing.h"
#include "support/torch_double/device_memory.h"
#include "support/torch_double/host_faults.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test::torch_double {

namespace {

// Never destroyed: tensors may outlive main.
Arena& device_arena() {
  static auto* arena = new Arena(std::size_t{64} << 30, Arena::Access::faults);
  return *arena;
}

}  // namespace

void* device_allocate(std::size_t bytes) {
  name_host_faults();
  return device_arena().allocate(bytes);
}

void device_free(void* memory) {
  if (memory != nullptr) device_arena().free(memory);
}

bool is_device_memory(const void* pointer) { return device_arena().contains(pointer); }

void* alias_of(const void* pointer) {
  if (!is_device_memory(pointer)) {
    std::fprintf(stderr, "torch double: %p is no address of the device\n", pointer);
    std::abort();
  }
  return device_arena().alias_of(pointer);
}

std::size_t allocated_bytes() { return device_arena().used(); }

std::size_t most_allocated_bytes() { return device_arena().most_used(); }

Bytes allocation_of(const void* address) {
  const auto span = device_arena().allocation_of(address);
  return {span.start, span.bytes};
}

void before_access(const std::string&, const std::vector<Bytes>&, const std::vector<Bytes>&) {}

void host_waits() {}

}  // namespace tessera::test::torch_double

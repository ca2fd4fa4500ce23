#include "values.h"

#include <cstring>

#include "backend.h"
#include "device/stream.h"
#include "groups.h"

namespace tessera::test {

using device::MemoryKind;
using device::Place;

namespace {

device::Memory allocate(MemoryKind kind, std::size_t bytes) {
  return device::allocate(kind, static_cast<std::int64_t>(bytes));
}

// The backend comes first: it may choose the GPU.
MemoryKind memory_kind() {
  static_cast<void>(world_under_test());
  return device::memory_of(backend_place());
}

void copy_in_order(void* to, const void* from, std::size_t bytes) {
  const auto compute = device::Stream::compute();
  const auto count = static_cast<std::int64_t>(bytes);
  device::copy_rows(to, count, from, count, count, 1, compute);
  compute.synchronize();
}

}  // namespace

BackendMemory::BackendMemory(const void* values, std::size_t bytes)
    : bytes_(bytes), memory_(allocate(memory_kind(), bytes)) {
  if (bytes == 0) return;
  if (backend_place() == Place::cpu) {
    std::memcpy(memory_.get(), values, bytes);
    return;
  }
  const auto pinned = allocate(MemoryKind::pinned, bytes);
  std::memcpy(pinned.get(), values, bytes);
  copy_in_order(memory_.get(), pinned.get(), bytes);
}

BackendMemory::~BackendMemory() {
  if (backend_place() == Place::cuda) device::Stream::compute().synchronize();
}

void BackendMemory::read(void* values) const {
  if (bytes_ == 0) return;
  if (backend_place() == Place::cpu) {
    std::memcpy(values, memory_.get(), bytes_);
    return;
  }
  const auto pinned = allocate(MemoryKind::pinned, bytes_);
  copy_in_order(pinned.get(), memory_.get(), bytes_);
  std::memcpy(values, pinned.get(), bytes_);
}

}  // namespace tessera::test

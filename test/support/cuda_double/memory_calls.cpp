// CUDA Runtime API, "Memory Management".
#include <fmt/format.h>

#include <cstring>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/runtime.h"

using namespace tessera::test;
using namespace tessera::test::cuda_double;

namespace {

cudaError_t allocate(void** memory, AllocationKind kind, std::size_t bytes) {
  if (memory == nullptr) return remember(cudaErrorInvalidValue);
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(runtime().mutex);
  *memory = runtime().memory.allocate(kind, current_device(), bytes);
  return remember(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

// Before it frees device memory, CUDA lets all streams of the GPU finish (CUDA C++ Programming Guide, "Stream-Ordered
// Memory Allocator"). Our code must not rely on that: it would be a synchronization with the whole GPU in disguise.
cudaError_t release(void* memory, AllocationKind kind, std::string_view call) {
  if (memory == nullptr) return cudaSuccess;
  std::optional<Allocation> allocation;
  {
    const std::lock_guard lock(runtime().mutex);
    allocation = runtime().memory.remove(memory);
    if (!allocation || allocation->kind != kind) {
      report_fault(fmt::format("{}: {} is not what it gave out, or has been freed", call, memory));
      return remember(cudaErrorInvalidValue);
    }
    if (const auto pending = allocation->accesses.pending(runtime().host()))
      report_fault(fmt::format("{} of {} while {} may still {} it: synchronize with an event behind that first", call,
                               allocation->name(), pending->operation,
                               pending->kind == AccessKind::read ? "read" : "write"));
  }
  runtime().wait_for_device(allocation->device);
  if (allocation->overrun()) report_fault("something wrote behind the end of " + allocation->name());
  const std::lock_guard lock(runtime().mutex);
  runtime().memory.bury(std::move(*allocation));
  return cudaSuccess;
}

// Returns whether memory at `address` is of the kind that the direction of the copy says.
bool is_of_kind(const void* address, bool device) {
  const auto* allocation = runtime().memory.at(static_cast<const std::byte*>(address));
  return allocation == nullptr || (allocation->kind == AllocationKind::device) == device;
}

void check_direction(const void* to, const void* from, cudaMemcpyKind kind, std::string_view call) {
  if (kind == cudaMemcpyDefault) return;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (!is_of_kind(to, to_device) || !is_of_kind(from, from_device))
    report_fault(fmt::format("{}: the memory is not where cudaMemcpyKind {} says", call, static_cast<int>(kind)));
}

struct Copy {
  std::byte* to;
  std::size_t to_stride;
  const std::byte* from;
  std::size_t from_stride, row_bytes, rows;

  void operator()() const {
    for (std::size_t row = 0; row < rows; ++row) std::memcpy(to + row * to_stride, from + row * from_stride, row_bytes);
  }
};

cudaError_t enqueue(const Copy& copy, cudaMemcpyKind kind, cudaStream_t handle, const std::string& call) {
  const std::lock_guard lock(runtime().mutex);
  auto* stream = runtime().stream_of(handle, call);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  runtime().before_use(*stream, call);
  if (copy.row_bytes == 0 || copy.rows == 0) return cudaSuccess;
  check_direction(copy.to, copy.from, kind, call);
  const auto reads = rows_of(copy.from, copy.row_bytes, copy.rows, copy.from_stride);
  const auto writes = rows_of(copy.to, copy.row_bytes, copy.rows, copy.to_stride);
  const bool apart = !overlap(reads, writes);
  if (!apart) report_fault(call + ": source and destination overlap");
  const bool known = apart && runtime().memory.why_not(reads).empty() && runtime().memory.why_not(writes).empty();
  runtime().issue(
      *stream, {{call, {reads}, {writes}}}, runtime().host(), known ? std::function<void()>(copy) : [] {});
  return known ? cudaSuccess : remember(cudaErrorInvalidValue);
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return allocate(memory, AllocationKind::device, bytes); }

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return allocate(memory, AllocationKind::pinned, bytes); }

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int flags) {
  constexpr unsigned int known = cudaHostAllocPortable | cudaHostAllocMapped;
  if ((flags & ~known) != 0) return remember(cudaErrorInvalidValue);
  return allocate(memory, AllocationKind::pinned, bytes);
}

cudaError_t cudaFree(void* memory) { return release(memory, AllocationKind::device, "cudaFree"); }

cudaError_t cudaFreeHost(void* memory) { return release(memory, AllocationKind::pinned, "cudaFreeHost"); }

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return enqueue({static_cast<std::byte*>(to), bytes, static_cast<const std::byte*>(from), bytes, bytes, 1}, kind,
                 stream, "cudaMemcpyAsync");
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
                              std::size_t row_bytes, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (row_bytes > to_stride || row_bytes > from_stride) return remember(cudaErrorInvalidPitchValue);
  return enqueue(
      {static_cast<std::byte*>(to), to_stride, static_cast<const std::byte*>(from), from_stride, row_bytes, rows}, kind,
      stream, "cudaMemcpy2DAsync");
}

cudaError_t cudaMemsetAsync(void* memory, int byte, std::size_t bytes, cudaStream_t handle) {
  const std::lock_guard lock(runtime().mutex);
  auto* stream = runtime().stream_of(handle, "cudaMemsetAsync");
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  runtime().before_use(*stream, "cudaMemsetAsync");
  if (bytes == 0) return cudaSuccess;
  const bool known = runtime().memory.why_not(bytes_of(memory, bytes)).empty();
  runtime().issue(*stream, {{"cudaMemsetAsync", {}, {bytes_of(memory, bytes)}}}, runtime().host(), [=] {
    if (known) std::memset(memory, byte, bytes);
  });
  return known ? cudaSuccess : remember(cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return remember(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  *total_bytes = runtime().memory.device_bytes;
  *free_bytes = *total_bytes - std::min(*total_bytes, runtime().memory.bytes_in_use(current_device()));
  return cudaSuccess;
}

}  // extern "C"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>

#include "device/cuda/check.h"
#include "device/memory_gpu.h"

namespace tessera::device {

std::byte* allocate_for_gpu(MemoryKind kind, std::int64_t bytes) {
  void* memory = nullptr;
  const auto size = static_cast<std::size_t>(bytes);
  const auto result =
      kind == MemoryKind::pinned ? cudaHostAlloc(&memory, size, cudaHostAllocDefault) : cudaMalloc(&memory, size);
  if (result != cudaErrorMemoryAllocation) {
    check_cuda(result, kind == MemoryKind::pinned ? "cudaHostAlloc" : "cudaMalloc");
    return static_cast<std::byte*>(memory);
  }
  static_cast<void>(cudaGetLastError());
  return nullptr;
}

// Freeing waits for the work under way on the GPU. While an exception propagates, that may be a collective that other
// ranks never join, and the job could not end. So nothing is freed then; the process is about to end.
void release_for_gpu(MemoryKind kind, std::byte* memory) {
  if (std::uncaught_exceptions() > 0) return;
  // An error here is that of an earlier operation; the next call that may throw reports it.
  static_cast<void>(kind == MemoryKind::pinned ? cudaFreeHost(memory) : cudaFree(memory));
}

void fill_on_gpu(void* memory, int byte, std::int64_t bytes) {
  check_cuda(cudaMemsetAsync(memory, byte, static_cast<std::size_t>(bytes), Stream::compute().native()),
             "cudaMemsetAsync");
}

void copy_rows(void* to, std::int64_t to_stride, const void* from, std::int64_t from_stride, std::int64_t row_bytes,
               std::int64_t rows, const Stream& stream) {
  if (row_bytes == 0 || rows == 0) return;
  const auto copy_run = [&](std::int64_t row, std::int64_t bytes) {
    check_cuda(cudaMemcpyAsync(static_cast<std::byte*>(to) + row * to_stride,
                               static_cast<const std::byte*>(from) + row * from_stride, static_cast<std::size_t>(bytes),
                               cudaMemcpyDefault, stream.native()),
               "cudaMemcpyAsync");
  };
  constexpr std::int64_t largest_pitch = 2'147'483'647;  // cudaDeviceProp::memPitch
  if (rows == 1 || (to_stride == row_bytes && from_stride == row_bytes)) return copy_run(0, rows * row_bytes);
  if (std::max(to_stride, from_stride) > largest_pitch) {
    for (std::int64_t row = 0; row < rows; ++row) copy_run(row, row_bytes);
    return;
  }
  const auto size = [](std::int64_t bytes) { return static_cast<std::size_t>(bytes); };
  check_cuda(cudaMemcpy2DAsync(to, size(to_stride), from, size(from_stride), size(row_bytes), size(rows),
                               cudaMemcpyDefault, stream.native()),
             "cudaMemcpy2DAsync");
}

}  // namespace tessera::device

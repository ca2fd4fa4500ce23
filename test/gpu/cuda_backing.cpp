// The stand-in for a GPU on the double of CUDA's memory and streams (torch_double/backing.h): an operation of LibTorch
// takes its turn on the default stream, and what it reads and writes is checked against what other streams do.
#include "cuda_backing.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <new>

#include "support/cuda_double/in_order.h"
#include "support/torch_double/backing.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test {

namespace {
std::atomic<int> gpu = 0;
}

void use_gpu_of_double(int index) {
  gpu = index;
  cudaSetDevice(index);
}

namespace torch_double {

namespace {

std::atomic<std::size_t> allocated = 0, most_allocated = 0;

std::vector<ByteRange> ranges(const std::vector<Bytes>& list) {
  std::vector<ByteRange> result;
  for (const auto& bytes : list) result.push_back(test::bytes_of(bytes.begin, bytes.count));
  return result;
}

}  // namespace

void* device_allocate(std::size_t bytes) {
  cudaSetDevice(gpu);
  auto* memory = allocate_device_memory(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  most_allocated = std::max<std::size_t>(most_allocated, allocated += bytes);
  return memory;
}

void device_free(void* memory) {
  cudaSetDevice(gpu);
  allocated -= device_memory_at(memory).bytes;
  free_in_order(memory);
}

bool is_device_memory(const void* pointer) { return device_memory_at(pointer).begin != nullptr; }

void* alias_of(const void* pointer) { return const_cast<void*>(pointer); }

std::size_t allocated_bytes() { return allocated; }

std::size_t most_allocated_bytes() { return most_allocated; }

Bytes allocation_of(const void* address) {
  const auto memory = device_memory_at(address);
  return {memory.begin, memory.bytes};
}

void before_access(const std::string& operation, const std::vector<Bytes>& reads, const std::vector<Bytes>& writes) {
  cudaSetDevice(gpu);
  wait_for_turn(operation, ranges(reads), ranges(writes));
}

void host_waits() {
  cudaSetDevice(gpu);
  host_has_waited();
}

}  // namespace torch_double
}  // namespace tessera::test

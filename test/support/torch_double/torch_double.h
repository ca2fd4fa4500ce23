// A stand-in for a GPU: LibTorch's device PrivateUse1, whose memory is host memory that the host cannot touch.
// Everything that LibTorch runs on a GPU for us runs on a machine without one, and is held to a GPU's rules.
//
// Linking tessera_torch_double is enough: the device is registered before main; tensor_device(Place::cuda) names it.
// - Every operation runs its CPU kernel on the same memory (fallback.h). Those that LibTorch has for CUDA alone are
//   written out in kernels.cpp, with CUDA's conditions on types, strides and alignment.
// - An operation that mixes places is refused as on a GPU.
// - A tensor's data_ptr() is an address that faults when host code reads or writes it. New and freed memory is NaN.
// - Operations for which the host would wait for a GPU are counted by name.
// - With deterministicAlgorithms() on, what CUDA then refuses is refused.
// It is not asynchronous: an order of streams that is wrong is not seen here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::test::torch_double {

[[nodiscard]] at::Device device();
[[nodiscard]] at::Tensor to_device(const at::Tensor& tensor);

// Allocates device memory for buffers that are bound to tensors, like cudaMalloc: aligned to 512, full of NaN. Throws
// std::bad_alloc. Thread-safe.
[[nodiscard]] void* device_allocate(std::size_t bytes);
// Fills the memory with NaN and frees it. Ends the program if something was written right behind it, or if it is no
// such memory. Ignores null.
void device_free(void* memory);
[[nodiscard]] bool is_device_memory(const void* pointer);
// Returns where the host may read and write the bytes at a device address: for doubles of our own kernels.
[[nodiscard]] void* alias_of(const void* pointer);
// Return the bytes that are allocated now, and the most since the start.
[[nodiscard]] std::size_t allocated_bytes();
[[nodiscard]] std::size_t most_allocated_bytes();

// Returns the operations, in order and of all threads, after which the host would have had to wait for a GPU: reading a
// scalar, copies to the host, blocking copies from it ("copy to device"), results whose size depends on data.
[[nodiscard]] std::vector<std::string> counted_synchronisations();
void reset_synchronisations();
// Counts a synchronisation of a double of our own kernels that waits.
void count_synchronisation(const std::string& name);

// Returns how often each operation, by name, would have launched something on a GPU; views and allocations do not.
[[nodiscard]] std::map<std::string, std::int64_t> launches();
[[nodiscard]] std::int64_t launch_count();
void reset_launches();

}  // namespace tessera::test::torch_double

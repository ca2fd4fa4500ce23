// The backing of the double: where its memory comes from, and in which order its operations run.
//
// own_backing.cpp: memory that the host cannot touch, and operations that run at once. A program with the double of
// CUDA's streams has cuda_backing.cpp instead: memory is that double's, and operations take their turn on its default
// stream.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::test::torch_double {

struct Bytes {
  const std::byte* begin = nullptr;  // null: none
  std::size_t count = 0;
};

// Returns the allocation of the device that contains an address.
[[nodiscard]] Bytes allocation_of(const void* address);

// Called before an operation reads or writes memory of the device; returns when it may do so.
void before_access(const std::string& operation, const std::vector<Bytes>& reads, const std::vector<Bytes>& writes);

// Makes the host wait until all operations so far are done.
void host_waits();

}  // namespace tessera::test::torch_double

// What lies behind the double: where its memory comes from, and in which order its operations are.
//
// own_backing.cpp: memory that the host cannot touch, and everything at once. In a program with the double of CUDA's
// streams: cuda_backing.cpp, where memory is that double's and operations take their turn on its default stream.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::test::torch_double {

struct Bytes {
  const std::byte* begin = nullptr;  // null: none
  std::size_t count = 0;
};

// The allocation of the device that an address lies in.
[[nodiscard]] Bytes allocation_of(const void* address);

// Before an operation reads or writes memory of the device; returns when it may.
void before_access(const std::string& operation, const std::vector<Bytes>& reads, const std::vector<Bytes>& writes);

// The host waits until all operations so far are done.
void host_waits();

}  // namespace tessera::test::torch_double

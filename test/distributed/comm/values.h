// Values in the memory of the backend under test.
#pragma once

#include <cstddef>
#include <vector>

#include "device/memory.h"

namespace tessera::test {

// A copy of `bytes` bytes. Constructing the first object is collective over the world, like groups_under_test().
class BackendMemory {
 public:
  BackendMemory(const void* values, std::size_t bytes);
  // Waits until the compute stream has done all that it was given.
  ~BackendMemory();
  BackendMemory(const BackendMemory&) = delete;
  BackendMemory& operator=(const BackendMemory&) = delete;
  [[nodiscard]] void* data() const { return memory_.get(); }
  // Copies the values out after all that the compute stream was given so far.
  void read(void* values) const;

 private:
  const std::size_t bytes_;
  const device::Memory memory_;
};

template <class T>
class Values {
 public:
  explicit Values(const std::vector<T>& values)
      : count_(values.size()), memory_(values.data(), values.size() * sizeof(T)) {}
  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.data()); }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(count_);
    memory_.read(values.data());
    return values;
  }

 private:
  const std::size_t count_;
  const BackendMemory memory_;
};

}  // namespace tessera::test

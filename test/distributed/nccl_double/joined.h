// The ranks of the world as the tests of NCCL's double use them.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "support/cuda_double/cuda_double.h"

namespace tessera::test {

// The same on every rank; collective over the world.
[[nodiscard]] ncclUniqueId shared_id();

enum class Calls : std::uint8_t { block, return_at_once };

// Polls until nothing is in progress.
ncclResult_t settle(ncclComm_t communicator);

// All ranks of the world in one communicator, each on a GPU of its own, with a stream for its operations. Collective
// over the world, at its end too.
class Joined {
 public:
  explicit Joined(Calls calls = Calls::block);
  ~Joined();
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;
  // In place of what the end does; a communicator that was misused cannot be destroyed.
  void abort();
  void destroy();

  [[nodiscard]] int next() const { return (rank + 1) % size; }
  [[nodiscard]] int previous() const { return (rank + size - 1) % size; }

  int rank = 0, size = 0;
  ncclComm_t communicator = nullptr;
  cudaStream_t lane = nullptr;
};

// `to` waits for an event behind all that `from` was given.
void order(cudaStream_t from, cudaStream_t to);

// Elements in device memory.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t elements) : elements_(elements) {
    void* data = nullptr;
    cudaMalloc(&data, elements * sizeof(T));
    data_ = static_cast<T*>(data);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { *this = values; }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  DeviceArray& operator=(const std::vector<T>& values) {
    copy_to_device(data_, values.data(), values.size() * sizeof(T));
    return *this;
  }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> values(elements_);
    copy_from_device(values.data(), data_, elements_ * sizeof(T));
    return values;
  }
  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] ByteRange range() const { return bytes_of(data_, elements_ * sizeof(T)); }

 private:
  std::size_t elements_;
  T* data_ = nullptr;
};

// What a run of `wrong` is blamed for, and only that: "none" if nothing, else the faults, one a line. Those after the
// first of one kind say the same of a later operation.
template <class Wrong>
[[nodiscard]] std::string blamed(Wrong wrong) {
  const ExpectFaults expecting;
  wrong();
  std::string all;
  for (const auto& fault : expecting.found()) all += (all.empty() ? "" : "\n") + fault;
  return all.empty() ? "none" : all;
}

[[nodiscard]] inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace tessera::test

// Communicators, device memory and faults for the tests of NCCL's double.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "support/cuda_double/cuda_double.h"

namespace tessera::test {

// Returns one unique id, the same on every rank. Collective over the world.
[[nodiscard]] ncclUniqueId shared_id();

enum class Calls : std::uint8_t { block, return_at_once };

// Polls until nothing is in progress.
ncclResult_t settle(ncclComm_t communicator);

// A communicator of all ranks of the world, each on a GPU of its own, with a stream for its operations. Construction
// and destruction are collective over the world.
class Joined {
 public:
  explicit Joined(Calls calls = Calls::block);
  ~Joined();
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;
  // Both end the communicator, so that the destructor does not; one that was misused must be aborted, since it cannot
  // be destroyed.
  void abort();
  void destroy();

  [[nodiscard]] int next() const { return (rank + 1) % size; }
  [[nodiscard]] int previous() const { return (rank + size - 1) % size; }

  int rank = 0, size = 0;
  ncclComm_t communicator = nullptr;
  cudaStream_t lane = nullptr;
};

// Makes `to` wait for an event behind all that `from` was given.
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

// Returns the faults of a run of `wrong`, one per line; "none" if there are none. Faults after the first of one kind
// say the same about a later operation.
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

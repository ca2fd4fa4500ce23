// Shared by the tests of the CUDA double: streams, events, memory and faults.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/cuda_double/cuda_double.h"

namespace tessera::test {

class Stream {
 public:
  Stream() { cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned int flags = cudaEventDefault) { cudaEventCreateWithFlags(&event_, flags); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

enum class On { gpu, host };

// Memory of the GPU, or pinned memory of the host.
class Memory {
 public:
  explicit Memory(std::size_t bytes, On on = On::gpu) : bytes_(bytes), on_(on) {
    void* data = nullptr;
    on == On::gpu ? cudaMalloc(&data, bytes) : cudaHostAlloc(&data, bytes, cudaHostAllocDefault);
    data_ = static_cast<std::byte*>(data);
  }
  ~Memory() { on_ == On::gpu ? cudaFree(data_) : cudaFreeHost(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] ByteRange range() const { return bytes_of(data_, bytes_); }
  [[nodiscard]] ByteRange range(std::size_t from, std::size_t bytes) const { return bytes_of(data_ + from, bytes); }

 private:
  std::size_t bytes_;
  On on_;
  std::byte* data_ = nullptr;
};

// Returns the faults of `calls`, one per line; "none" if there are none.
template <class Calls>
[[nodiscard]] std::string blamed(Calls calls) {
  const ExpectFaults expecting;
  calls();
  std::string all;
  for (const auto& fault : expecting.found()) all += (all.empty() ? "" : "\n") + fault;
  return all.empty() ? "none" : all;
}

inline void writes(cudaStream_t stream, const ByteRange& range) {
  launch(stream, "write", {}, {range}, [] {});
}
inline void reads(cudaStream_t stream, const ByteRange& range) {
  launch(stream, "read", {range}, {}, [] {});
}
// Waits for all streams that it names; the host then knows all their work to be over.
inline void rest(std::initializer_list<cudaStream_t> streams) {
  for (auto* stream : streams) cudaStreamSynchronize(stream);
}

}  // namespace tessera::test

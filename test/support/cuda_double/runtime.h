// The state behind the CUDA calls of this process.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/cuda_double/memory_registry.h"
#include "support/cuda_double/stream.h"

namespace tessera::test::cuda_double {

// The memory that an operation of a stream touches. A fused operation has several parts.
struct Part {
  std::string name;  // "kernel 'add'", "ncclAllGather of communicator 1"
  std::vector<ByteRange> reads, writes;
};

// Data members and functions need the lock of `mutex`, unless they say otherwise; a thread that waits for a stream
// releases it first.
class Runtime {
 public:
  Runtime();
  // Runs at exit: reports as faults what was left open, and ends the process if there were faults.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  std::recursive_mutex mutex;
  MemoryRegistry memory;
  int device_count = 8;

  // Returns null, after a fault that names `call`, if the handle is unknown or was destroyed. A null handle is the
  // default stream of the calling thread's device.
  [[nodiscard]] CUstream_st* stream_of(cudaStream_t handle, std::string_view call);
  [[nodiscard]] CUevent_st* event_of(cudaEvent_t handle, std::string_view call);
  [[nodiscard]] CUstream_st* create_stream(int device);
  void destroy_stream(CUstream_st* stream);
  [[nodiscard]] CUevent_st* create_event(unsigned int flags, int device);
  void destroy_event(CUevent_st* event);

  // Returns the clock of what the calling thread knows to be over. The reference is valid for that thread.
  [[nodiscard]] const VectorClock& host();
  enum class Knows : std::uint8_t { this_thread, all_threads };
  void host_knows(const VectorClock& clock, Knows who);
  // Orders and checks an operation of `stream`, called by a thread that knew `host`, and enqueues `work`.
  void issue(CUstream_st& stream, const std::vector<Part>& parts, const VectorClock& host, std::function<void()> work);
  // Orders and checks accesses that the calling thread makes itself.
  void check_host_accesses(const Part& part);
  // Reports a fault if `call` may not use the stream now.
  static void before_use(const CUstream_st& stream, std::string_view call);
  // The part of before_use that applies within a group too.
  static void check_not_owed(const CUstream_st& stream, std::string_view call);

  void for_each_stream(const std::function<void(CUstream_st&)>& action);

  // Waits for all streams of the device. Call it without the lock.
  void wait_for_device(int device);

  void set_delays(std::uint32_t seed, int longest_us);

 private:
  struct HostThread {
    Actor actor = 0;
    VectorClock clock;
  };
  [[nodiscard]] HostThread& this_thread();
  struct Accessor {
    Actor actor = 0;
    std::string_view where;
    const VectorClock &clock, &host;
  };
  void check_accesses(const std::vector<Part>& parts, const Accessor& accessor);
  [[nodiscard]] int next_delay_us();

  Actor actors_ = 0;
  VectorClock all_threads_know_;
  std::map<std::thread::id, HostThread> threads_;  // not thread_local: static objects call after those are gone
  std::size_t streams_made_ = 0;
  std::vector<std::unique_ptr<CUstream_st>> streams_, destroyed_;
  std::vector<std::unique_ptr<CUstream_st>> default_streams_;  // by device
  std::vector<std::unique_ptr<CUevent_st>> events_;
  std::minstd_rand random_;
  int longest_delay_us_ = 0;
};

// The runtime of this process.
[[nodiscard]] Runtime& runtime();

// The device of the calling thread.
[[nodiscard]] int current_device();
void set_current_device(int device);
// Keeps `error`, if it is one, for cudaGetLastError, and returns it.
cudaError_t remember(cudaError_t error);

}  // namespace tessera::test::cuda_double

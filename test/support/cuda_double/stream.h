// Streams, queues that a thread each works off in order, and events.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "support/cuda_double/access_order.h"

struct ncclComm;

namespace tessera::test::cuda_double {

// A point in a stream's queue.
class Passage {
 public:
  void pass();
  [[nodiscard]] bool has_passed() const;
  void wait() const;
  // Returns when it was passed, in seconds since an arbitrary start; 0 if it was not passed yet.
  [[nodiscard]] double time() const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable passed_;
  double time_ = 0;
  bool has_passed_ = false;
};

class Stream {
 public:
  Stream(Actor actor, int device, std::string name);
  // Waits until the queue is empty.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // For any thread. `work` must not throw.
  void enqueue(std::function<void()> work);
  // Returns a point behind all that was enqueued so far.
  [[nodiscard]] std::shared_ptr<Passage> mark();

  const Actor actor;
  const int device;
  const std::string name;  // "stream 2", "the default stream"

  // The clock of all that was enqueued so far. Guarded by the lock of the runtime.
  VectorClock clock;
  // A communicator that does not block and has not yet enqueued the operations that it was given for this stream.
  // Guarded by that lock.
  const ncclComm* owed_by = nullptr;

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool ending_ = false;
  std::thread worker_;
};

}  // namespace tessera::test::cuda_double

// The objects behind CUDA's handles.
struct CUstream_st final : tessera::test::cuda_double::Stream {
  using Stream::Stream;
};

struct CUevent_st final {
  int device = 0;
  bool timed = true;
  // Both belong to the last record; passage is null before the first.
  std::shared_ptr<tessera::test::cuda_double::Passage> passage;
  tessera::test::cuda_double::VectorClock clock;
};

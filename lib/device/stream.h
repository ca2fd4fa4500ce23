// Streams and events of the GPU in use: what orders the work on it, without the host waiting.
// (CUDA Runtime API, "Stream Management" and "Event Management".)
//
// cuda/stream.cpp, which needs the CUDA runtime alone; without CUDA no_cuda/stream.cpp, where none can be made. Neither
// throws for what an earlier operation on the GPU did wrong but Error(rank_failed), in CUDA's words.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

struct CUstream_st;
struct CUevent_st;

namespace tessera::device {

// A point in a stream. Copies are the same point; shared because many may wait for it.
class Event {
 public:
  Event() = default;  // of no stream yet: it has passed
  explicit Event(std::shared_ptr<CUevent_st> event) : event_(std::move(event)) {}
  // The host waits until it has passed.
  void synchronize() const;
  [[nodiscard]] bool has_passed() const;
  // From `earlier` to this one, as the GPU measured. Both have been recorded; waits for both.
  [[nodiscard]] double seconds_since(const Event& earlier) const;
  [[nodiscard]] CUevent_st* native() const { return event_.get(); }

 private:
  std::shared_ptr<CUevent_st> event_;
};

class Stream {
 public:
  // The one on which LibTorch computes: CUDA's default stream.
  [[nodiscard]] static Stream compute();
  // One of its own, not ordered with any other but by events, ahead of `compute` where the GPU must choose.
  [[nodiscard]] static Stream lane();

  // What is given to this stream from now on begins after `event`.
  void wait(const Event& event) const;
  // A new event after all that was given to this stream so far.
  [[nodiscard]] Event record() const;
  // The host waits for all that was given to it.
  void synchronize() const;
  [[nodiscard]] CUstream_st* native() const { return stream_.get(); }

 private:
  explicit Stream(std::shared_ptr<CUstream_st> stream) : stream_(std::move(stream)) {}
  std::shared_ptr<CUstream_st> stream_;  // null: the default one
};

}  // namespace tessera::device

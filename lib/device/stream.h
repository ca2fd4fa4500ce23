// Streams and events of the GPU in use. They order its work without the host waiting (CUDA Runtime API, "Stream
// Management" and "Event Management").
//
// Implemented in cuda/stream.cpp, which needs the CUDA runtime only; no_cuda/stream.cpp, without CUDA, can make neither
// streams nor events. Any call may report the failure of an earlier operation on the GPU: it then throws
// Error(rank_failed) with CUDA's error text.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

struct CUstream_st;
struct CUevent_st;

namespace tessera::device {

// A point in a stream. Copies stand for the same point, so that several may wait for it.
class Event {
 public:
  Event() = default;  // not recorded: counts as passed
  explicit Event(std::shared_ptr<CUevent_st> event) : event_(std::move(event)) {}
  // Blocks the host until the stream has passed the event.
  void synchronize() const;
  [[nodiscard]] bool has_passed() const;
  // Returns the time from `earlier` to this event as the GPU measured it; blocks until both have passed. Precondition:
  // both have been recorded.
  [[nodiscard]] double seconds_since(const Event& earlier) const;
  [[nodiscard]] CUevent_st* native() const { return event_.get(); }

 private:
  std::shared_ptr<CUevent_st> event_;
};

class Stream {
 public:
  // Returns CUDA's default stream, on which LibTorch computes.
  [[nodiscard]] static Stream compute();
  // Makes a stream that only events order with others. It has a higher priority than compute().
  [[nodiscard]] static Stream lane();

  // Makes the work given to this stream from now on begin after `event`.
  void wait(const Event& event) const;
  // Returns a new event, which passes after the work given to this stream so far.
  [[nodiscard]] Event record() const;
  // Blocks the host until the work given to this stream so far is done.
  void synchronize() const;
  [[nodiscard]] CUstream_st* native() const { return stream_.get(); }

 private:
  explicit Stream(std::shared_ptr<CUstream_st> stream) : stream_(std::move(stream)) {}
  std::shared_ptr<CUstream_st> stream_;  // null: the default stream
};

}  // namespace tessera::device

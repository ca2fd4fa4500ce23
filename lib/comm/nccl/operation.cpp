#include "comm/nccl/operation.h"

#include <algorithm>
#include <exception>

#include "base/clock.h"
#include "base/log.h"

namespace tessera::comm {

GpuClock::GpuClock(const device::Stream& stream) : reference_(stream.record()) {
  reference_.synchronize();
  at_reference_ = base::seconds_now();
}

// CUDA gives milliseconds as a float, exact to 4 microseconds within a minute, so the reference event is moved forward.
double GpuClock::seconds_at(const device::Event& event) {
  constexpr double longest = 60;
  const auto since = event.seconds_since(reference_);
  const auto at = at_reference_ + since;
  if (since > longest) {
    reference_ = event;
    at_reference_ = at;
  }
  return at;
}

GpuOperation::~GpuOperation() {
  if (is_waited_for_) return;
  try {
    wait();
  } catch (const std::exception& error) {
    base::log_warning("{}", error.what());
  }
}

// The operation's memory may be freed now: only later work of the compute stream can write it again.
void GpuOperation::wait() {
  const auto compute = device::Stream::compute();
  reached_ = compute.record();
  compute.wait(ended_);
  is_waited_for_ = true;
  keep_.reset();
}

Span GpuOperation::span() const {
  const auto ended = clock_->seconds_at(ended_);
  return {ended - ended_.seconds_since(started_), ended};
}

// Until the operation started, earlier operations of its lane blocked the compute stream; that time is not counted.
std::optional<double> GpuOperation::exposed_seconds() const {
  return std::max(0.0, std::min(ended_.seconds_since(started_), ended_.seconds_since(reached_)));
}

}  // namespace tessera::comm

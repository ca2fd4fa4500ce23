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

// CUDA gives milliseconds as a float: exact to 4 microseconds within a minute, so the reference moves on.
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

// What is freed after this call is written again only by what the compute stream is given later.
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

// Before it started, the compute stream was blocked by what came before it in its lane.
std::optional<double> GpuOperation::exposed_seconds() const {
  return std::max(0.0, std::min(ended_.seconds_since(started_), ended_.seconds_since(reached_)));
}

}  // namespace tessera::comm

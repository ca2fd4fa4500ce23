// An operation in a lane of the GPU, and when it was there.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/stream.h"

namespace tessera::comm {

// base::seconds_now() at events of the GPU. One thread.
class GpuClock {
 public:
  // Waits for `stream`.
  explicit GpuClock(const device::Stream& stream);
  // When `event` passed; waits for it.
  [[nodiscard]] double seconds_at(const device::Event& event);

 private:
  device::Event reference_;
  double at_reference_;
};

class GpuOperation final : public Operation {
 public:
  GpuOperation(std::shared_ptr<GpuClock> clock, device::Event started, device::Event ended, KeepAlive keep)
      : clock_(std::move(clock)), started_(std::move(started)), ended_(std::move(ended)), keep_(std::move(keep)) {}
  // Who drops a handle without waiting for it may give its memory to others, in the order of the compute stream.
  ~GpuOperation() override;

  void wait() override;
  [[nodiscard]] Span span() const override;
  [[nodiscard]] bool has_passed() const override { return ended_.has_passed() && reached_.has_passed(); }
  [[nodiscard]] std::optional<double> exposed_seconds() const override;

 private:
  const std::shared_ptr<GpuClock> clock_;
  const device::Event started_, ended_;
  device::Event reached_;  // the compute stream, at wait()
  KeepAlive keep_;
  bool is_waited_for_ = false;
};

}  // namespace tessera::comm

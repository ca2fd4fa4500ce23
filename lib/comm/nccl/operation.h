// An operation on a lane of the GPU, and the times of its start and end.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/stream.h"

namespace tessera::comm {

// Converts events of the GPU to times of base::seconds_now(). For one thread.
class GpuClock {
 public:
  // Waits for `stream`.
  explicit GpuClock(const device::Stream& stream);
  // Returns when `event` passed; blocks until it has.
  [[nodiscard]] double seconds_at(const device::Event& event);

 private:
  device::Event reference_;
  double at_reference_;
};

class GpuOperation final : public Operation {
 public:
  GpuOperation(std::shared_ptr<GpuClock> clock, device::Event started, device::Event ended, KeepAlive keep)
      : clock_(std::move(clock)), started_(std::move(started)), ended_(std::move(ended)), keep_(std::move(keep)) {}
  // Calls wait() if nobody has, so that later work of the compute stream may reuse the operation's memory.
  ~GpuOperation() override;

  void wait() override;
  [[nodiscard]] Span span() const override;
  [[nodiscard]] bool has_passed() const override { return ended_.has_passed() && reached_.has_passed(); }
  [[nodiscard]] std::optional<double> exposed_seconds() const override;

 private:
  const std::shared_ptr<GpuClock> clock_;
  const device::Event started_, ended_;
  device::Event reached_;  // recorded on the compute stream at wait()
  KeepAlive keep_;
  bool is_waited_for_ = false;
};

}  // namespace tessera::comm

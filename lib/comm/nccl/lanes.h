// The state that all NCCL groups of a process share: the lanes on its GPU, their clock, and the thread that watches
// them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "comm/nccl.h"
#include "comm/nccl/operation.h"
#include "comm/nccl/watch.h"
#include "device/memory.h"
#include "device/stream.h"

namespace tessera::comm {

// gather: gather_blocks and broadcast. exchange: all_to_all_rows. reduce: reduce_blocks and all_reduce.
enum class LaneKind : std::uint8_t { gather, exchange, reduce };
inline constexpr std::size_t lane_kinds = 3;
[[nodiscard]] constexpr std::size_t index_of(LaneKind kind) { return static_cast<std::size_t>(kind); }

// A stream and its staging memory. Operations of one lane run one after the other.
class Lane {
 public:
  Lane() : stream_(device::Stream::lane()) {}
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] const device::Stream& stream() const { return stream_; }
  // Returns at least `bytes` of GPU memory for the operation that is now given to the lane. All operations of the lane
  // get the same memory: in the lane's order the next one writes it only after this one has read it. If the memory has
  // to grow, the host waits for the lane; that happens in the first steps of a run only. It never shrinks.
  [[nodiscard]] std::byte* staging(std::int64_t bytes);

 private:
  const device::Stream stream_;
  device::Memory staging_;
  std::int64_t staging_bytes_ = 0;
};

class NcclLanes {
 public:
  // `world` outlives this.
  NcclLanes(World& world, const NcclOptions& options)
      : options_(options),
        timeout_s_(world.timeout_s()),
        watch_(world),
        clock_(std::make_shared<GpuClock>(lane(LaneKind::reduce).stream())) {}

  [[nodiscard]] const NcclOptions& options() const { return options_; }
  [[nodiscard]] double timeout_s() const { return timeout_s_; }
  [[nodiscard]] Lane& lane(LaneKind kind) { return lanes_[index_of(kind)]; }
  [[nodiscard]] NcclWatch& watch() { return watch_; }
  [[nodiscard]] const std::shared_ptr<GpuClock>& clock() const { return clock_; }

  // What this rank is doing, for messages.
  [[nodiscard]] const std::string& label() const { return label_; }
  void set_label(std::string_view label);

 private:
  const NcclOptions options_;
  const double timeout_s_;
  std::array<Lane, lane_kinds> lanes_;
  NcclWatch watch_;  // ends before the lanes do
  const std::shared_ptr<GpuClock> clock_;
  std::string label_;
};

}  // namespace tessera::comm

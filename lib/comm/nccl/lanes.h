// What the NCCL groups of a process have in common: the lanes on its GPU, and who watches over them.
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

// gather: gathers of blocks, and broadcasts. exchange: rows. reduce: reductions.
enum class LaneKind : std::uint8_t { gather, exchange, reduce };
inline constexpr std::size_t lane_kinds = 3;
[[nodiscard]] constexpr std::size_t index_of(LaneKind kind) { return static_cast<std::size_t>(kind); }

// A stream, and memory for what passes through it. Operations of the same lane run one after the other.
class Lane {
 public:
  Lane() : stream_(device::Stream::lane()) {}
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  [[nodiscard]] const device::Stream& stream() const { return stream_; }
  // At least `bytes`, for the operation that is given to the lane now, until the next one asks: it is safe to give all
  // of them the same memory, because in the lane's order the next one's first write comes after this one's last read.
  // Grows only; then the host waits for the lane, in the first steps of a run at most.
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

  // What this rank does.
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

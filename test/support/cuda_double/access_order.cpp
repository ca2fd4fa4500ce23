#include "support/cuda_double/access_order.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::test::cuda_double {

namespace {

std::string place(const ByteRange& range, const std::byte* base) {
  const auto from = range.begin - base;
  if (range.rows == 1) return fmt::format("bytes [{}, {})", from, range.end() - base);
  return fmt::format("{} rows of {} bytes from byte {}, {} apart", range.rows, range.row_bytes, from,
                     range.stride_bytes);
}

std::string unordered(const Access& earlier, const Access& later, const std::byte* base) {
  const bool reads = later.kind == AccessKind::read;
  return fmt::format(
      "{} before event: {} {} {}, which {} {} ({}), and nothing orders it after that: wait for an event that is "
      "recorded behind the earlier operation, or synchronize with its stream",
      reads ? "read" : "write", later.operation, reads ? "reads" : "writes", place(later.range, base),
      earlier.operation, earlier.kind == AccessKind::read ? "reads" : "writes", place(earlier.range, base));
}

}  // namespace

void VectorClock::join(const VectorClock& other) {
  if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
  for (std::size_t k = 0; k < other.times_.size(); ++k) times_[k] = std::max(times_[k], other.times_[k]);
}

std::uint64_t VectorClock::advance(Actor actor) {
  if (times_.size() <= actor) times_.resize(actor + 1);
  return ++times_[actor];
}

std::optional<std::string> AccessHistory::add(const Access& access, const VectorClock& clock, const VectorClock& host,
                                              const std::byte* base) {
  std::optional<std::string> fault;
  for (const auto& earlier : accesses_) {
    if (earlier.kind == AccessKind::read && access.kind == AccessKind::read) continue;
    if (clock.of(earlier.actor) >= earlier.time || !overlap(earlier.range, access.range)) continue;
    fault = unordered(earlier, access, base);
    break;
  }
  forget(access, clock, host);
  accesses_.push_back(access);
  return fault;
}

// Drops the accesses that need no further check: whatever is ordered after `access`, or known to the host, is ordered
// after them too.
void AccessHistory::forget(const Access& access, const VectorClock& clock, const VectorClock& host) {
  std::erase_if(accesses_, [&](const Access& earlier) {
    if (host.of(earlier.actor) >= earlier.time) return true;
    const bool as_strong = access.kind == AccessKind::write || earlier.kind == AccessKind::read;
    return as_strong && clock.of(earlier.actor) >= earlier.time && covers(access.range, earlier.range);
  });
}

std::optional<Access> AccessHistory::pending(const VectorClock& host) const {
  const auto found = std::find_if(accesses_.begin(), accesses_.end(),
                                  [&](const Access& access) { return host.of(access.actor) < access.time; });
  if (found == accesses_.end()) return std::nullopt;
  return *found;
}

}  // namespace tessera::test::cuda_double

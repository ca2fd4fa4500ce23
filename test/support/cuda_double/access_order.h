// Keeps the order of operations, and finds two that touch the same bytes without being ordered.
//
// Happens-before by vector clocks (Fidge 1988; Mattern 1989): each stream, and each host thread that calls, is an
// actor; an operation's clock holds, for every actor, how much of its work surely came before. Clocks are computed when
// operations are enqueued, so a missing wait is found whatever the timing. A host thread that waits for something makes
// it known to all host threads, since messages between threads are not seen; the answer to a query is known to the
// asking thread alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/cuda_double/byte_range.h"

namespace tessera::test::cuda_double {

using Actor = std::size_t;  // from 1

class VectorClock {
 public:
  [[nodiscard]] std::uint64_t of(Actor actor) const { return actor < times_.size() ? times_[actor] : 0; }
  void join(const VectorClock& other);
  // Advances the actor's time and returns it.
  std::uint64_t advance(Actor actor);

 private:
  std::vector<std::uint64_t> times_;
};

enum class AccessKind : std::uint8_t { read, write };

struct Access {
  ByteRange range;
  AccessKind kind{};
  Actor actor = 0;
  std::uint64_t time = 0;  // of the actor
  std::string operation;   // "kernel 'add' on stream 2"
};

// The accesses to one allocation that may still matter.
class AccessHistory {
 public:
  // Adds `access`, made with `clock`, which orders it after what `host` knows. Returns a fault if an earlier access
  // that conflicts is not ordered before it: the text begins "read before event" or "write before event" and names both
  // operations. `base` is the first byte of the allocation.
  std::optional<std::string> add(const Access& access, const VectorClock& clock, const VectorClock& host,
                                 const std::byte* base);
  // Returns an access that the host does not know to be over, if there is one.
  [[nodiscard]] std::optional<Access> pending(const VectorClock& host) const;

 private:
  void forget(const Access& access, const VectorClock& clock, const VectorClock& host);
  std::vector<Access> accesses_;
};

}  // namespace tessera::test::cuda_double

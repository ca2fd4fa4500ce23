// Which operations are ordered, and whether two that touch the same bytes are.
//
// Happens-before by vector clocks (Fidge 1988; Mattern 1989): each stream, and each thread of the host that calls, is
// an actor; an operation's clock says of every actor how much of it surely came before. Clocks are worked out when
// operations are enqueued, so that a missing wait is found whatever the timing. What one thread of the host has waited
// for all threads know, since what they tell each other is not seen; what it only asked about (a query) it alone knows.
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
  // The actor's next time.
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
  // Adds `access`, made with `clock`, which orders it after what `host` knows. A fault if an earlier access that
  // conflicts is not ordered before it: begins "read before event", "write before event"; names both operations.
  // `base` is the allocation's first byte.
  std::optional<std::string> add(const Access& access, const VectorClock& clock, const VectorClock& host,
                                 const std::byte* base);
  // An access that the host does not know to be over.
  [[nodiscard]] std::optional<Access> pending(const VectorClock& host) const;

 private:
  void forget(const Access& access, const VectorClock& clock, const VectorClock& host);
  std::vector<Access> accesses_;
};

}  // namespace tessera::test::cuda_double

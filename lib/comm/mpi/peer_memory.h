// Reads the memory of other ranks of this host without their help: one copy, where a message within a host takes two.
#pragma once

#include <mpi.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "comm/byte_sequence.h"

namespace tessera::comm {

class PeerMemory {
 public:
  // Collective over `world`. The ranks of a host test whether they can read each other's memory, which depends on the
  // kernel's rules for tracing processes (see ptrace(2)); if one cannot, none does. Sequences below `least_bytes` are
  // not worth reading.
  PeerMemory(MPI_Comm world, std::int64_t least_bytes);

  [[nodiscard]] std::int64_t least_bytes() const { return least_bytes_; }
  // Returns whether this rank and `rank` of the world can read a sequence of `bytes` of each other; both get the same
  // answer.
  [[nodiscard]] bool reaches(int rank, std::int64_t bytes) const;
  // Returns whether reading `sequence` is faster than messages. It is not if its runs are short, since each run costs a
  // look-up of pages.
  [[nodiscard]] bool is_worth_reading(const ByteSequence& sequence) const;
  // Copies bytes [begin, end) of `source`, which is memory of `rank`, into `target`, which has end - begin bytes.
  // `rank` must not change that memory meanwhile. Throws Error(rank_failed) if the kernel refuses.
  void read(int rank, const ByteSequence& source, std::int64_t begin, std::int64_t end,
            const std::vector<Run>& target) const;

 private:
  [[nodiscard]] pid_t process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }

  std::vector<pid_t> processes_;  // by rank of the world; 0: cannot be read
  std::int64_t least_bytes_;
};

}  // namespace tessera::comm

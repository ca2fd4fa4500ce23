// The memory of other ranks of this host, read without their help: one copy, where a message within a host makes two.
#pragma once

#include <mpi.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "comm/byte_sequence.h"

namespace tessera::comm {

class PeerMemory {
 public:
  // Collective over `world`. The ranks of a host try whether they can read each other (the kernel's rules for tracing
  // processes decide, see ptrace(2)); if one cannot, none does. Sequences of `least_bytes` or more are read so, smaller
  // ones are not worth it.
  PeerMemory(MPI_Comm world, std::int64_t least_bytes);

  [[nodiscard]] std::int64_t least_bytes() const { return least_bytes_; }
  // Whether a sequence of `bytes` may pass between this rank and `rank` of the world by being read; they agree.
  [[nodiscard]] bool reaches(int rank, std::int64_t bytes) const;
  // Whether reading `sequence`, from anywhere, beats messages: short runs cost a look-up of pages each.
  [[nodiscard]] bool is_worth_reading(const ByteSequence& sequence) const;
  // Copies bytes begin to end of `source`, memory of `rank`, into `target`. They have as many bytes; `source` must stay
  // as it is meanwhile. Throws Error(rank_failed).
  void read(int rank, const ByteSequence& source, std::int64_t begin, std::int64_t end,
            const std::vector<Run>& target) const;

 private:
  [[nodiscard]] pid_t process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }

  std::vector<pid_t> processes_;  // by rank of the world; 0: out of reach
  std::int64_t least_bytes_;
};

}  // namespace tessera::comm

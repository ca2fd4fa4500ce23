// What each rank of this host is doing, in memory that they share: so that a rank which waits in vain can tell what the
// others do, and one of them speaks when all of them end.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/unwinding.h"

namespace tessera::comm {

// Where a rank stands with its collectives. Times are base::seconds_now(), one clock for a host.
struct Whereabouts {
  std::int32_t under_way = 0;
  double since = 0;          // the oldest under way was started, or, if none is, the last one ended
  char operation[256] = {};  // that one; empty: none yet

  void set_operation(std::string_view text);  // cut to what fits
};

class RankTable {
 public:
  // Collective over `world`.
  explicit RankTable(MPI_Comm world);
  // Collective, before MPI ends; leaves all to the end of the process while an exception passes.
  ~RankTable();
  RankTable(const RankTable&) = delete;
  RankTable& operator=(const RankTable&) = delete;

  // The lowest rank of the world on this host: it tells hosts apart, also where they have one name.
  [[nodiscard]] int first_rank() const;

  // One thread of each rank.
  void write(const Whereabouts& whereabouts);
  // What this rank does, cut to what fits. One thread of each rank, not necessarily the same.
  void write_label(std::string_view label);
  [[nodiscard]] std::string label() const;  // of this rank; empty: none yet
  // What this rank does on a disk, cut to what fits; empty: nothing. The thread of write().
  void write_disk_work(std::string_view work);
  // One line for each rank of this host, the first 16: "rank 2 (process 4711), at Wait Gather layers.3: in
  // gather_blocks of 1.00 MiB among ranks 0-3 for 12.0 s".
  [[nodiscard]] std::string describe() const;
  // True for the first rank of this host that asks: it says why the job ends. Any thread.
  [[nodiscard]] bool claim_last_word();
  // What claim_last_word() sets, for a signal handler.
  [[nodiscard]] std::atomic<bool>& last_word();

 private:
  struct Row;
  [[nodiscard]] Row& row(int local_rank) const;

  MPI_Comm host_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  int local_rank_ = 0, local_ranks_ = 1;
  Row* rows_ = nullptr;  // of all ranks of this host
  Unwinding unwinding_;
};

}  // namespace tessera::comm

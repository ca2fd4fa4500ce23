// A table in memory that the ranks of a host share: each rank writes what it is doing, so that a stuck rank can report
// what the others do. The table also decides which rank of the host logs why the job ends.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/unwinding.h"

namespace tessera::comm {

// The state of a rank's collectives. Times are base::seconds_now(), which is the same clock on all ranks of a host.
struct Whereabouts {
  std::int32_t under_way = 0;  // the number of operations
  double since = 0;            // when the oldest operation under way started; if there is none, when the last one ended
  char operation[256] = {};    // describes that operation; empty: none yet

  void set_operation(std::string_view text);  // truncates to what fits
};

class RankTable {
 public:
  // Collective over `world`.
  explicit RankTable(MPI_Comm world);
  // Collective; must run before MPI ends. Frees nothing while an exception propagates: the process ends anyway.
  ~RankTable();
  RankTable(const RankTable&) = delete;
  RankTable& operator=(const RankTable&) = delete;

  // Returns the lowest rank of the world on this host, which identifies the host even if hosts have the same name.
  [[nodiscard]] int first_rank() const;

  // Only one thread of each rank may call write().
  void write(const Whereabouts& whereabouts);
  // Records what this rank is doing, truncated to what fits. Only one thread of each rank may call it, which need not
  // be the one that calls write().
  void write_label(std::string_view label);
  [[nodiscard]] std::string label() const;  // of this rank; empty: none yet
  // Records this rank's work on a file, truncated to what fits; empty: none. Only the thread that calls write() may
  // call it.
  void write_disk_work(std::string_view work);
  // Returns one line for each of the first 16 ranks of this host: "rank 2 (process 4711), at Wait Gather layers.3: in
  // gather_blocks of 1.00 MiB among ranks 0-3 for 12.0 s".
  [[nodiscard]] std::string describe() const;
  // Returns true to the first caller of this host, which then logs why the job ends. Any thread may call it.
  [[nodiscard]] bool claim_last_word();
  // Returns the flag that claim_last_word() sets, for a signal handler.
  [[nodiscard]] std::atomic<bool>& last_word();

 private:
  struct Row;
  [[nodiscard]] Row& row(int local_rank) const;

  MPI_Comm host_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  int local_rank_ = 0, local_ranks_ = 1;
  Row* rows_ = nullptr;  // one for each rank of this host
  Unwinding unwinding_;
};

}  // namespace tessera::comm

// Signs of life: a rank that waits asks the ranks that it waits for whether they are alive. A rank that works on a file
// (base/disk_work.h) gives signs of life as long as the work makes progress, and for some time after, since a single
// call to a disk shows no progress while it lasts. A rank that waits for such a rank passes its signs on. A rank that
// computes or does nothing gives none.
//
// Signs are counted rather than timed, because the clocks of hosts differ and a process may have been suspended.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/disk_work.h"
#include "comm/mpi/rank_table.h"

namespace tessera::comm {

// The signs that one rank gives and hears. Only the thread that drives the rank's collectives may call it. Questions
// and answers are messages ("letters") with a tag of their own.
class LifeSigns {
 public:
  // A call to a disk gives signs of life for this many times timeout_s. By then the log has warned of it once.
  static constexpr double patience = 4;

  // `communicator` returns errors (MPI_ERRORS_RETURN); `communicator` and `table` outlive this.
  LifeSigns(MPI_Comm communicator, int tag, double timeout_s, RankTable& table);
  // Gives up letters under way.
  ~LifeSigns();
  LifeSigns(const LifeSigns&) = delete;
  LifeSigns& operator=(const LifeSigns&) = delete;

  // Records this rank's work on files, and receives and answers letters. Call it several times a second. `now` is in
  // seconds of a base::RunningTime.
  void look(double now);
  // Sends a question to each of `ranks` (ranks of the communicator) that has answered the last one and was last asked
  // longer than timeout_s / 20 ago.
  void ask(std::span<const int> ranks);
  // Returns the number of signs of life heard so far: of ranks that were asked, and of ranks that those wait for.
  [[nodiscard]] std::int64_t heard() const { return heard_; }
  // Returns "rank 1 is at sync of out/shard_00001.safetensors, without progress for 12.0 s; " for each of `ranks` whose
  // last answer said that it works on a file.
  [[nodiscard]] std::string describe(std::span<const int> ranks) const;

 private:
  struct Sign {
    std::int32_t rank = -1;  // -1: none
    std::int64_t count = 0;  // the number of that rank's own signs
  };
  enum class Kind : std::int32_t { question, answer };
  struct Letter {
    Kind kind{};
    Sign own;
    Sign passed_on[4];    // the latest signs that the sender heard of other ranks
    double quiet_s = 0;   // for how long the work has made no progress
    char work[256] = {};  // the sender's work on a file; empty: none
  };
  struct Sent {
    MPI_Request request = MPI_REQUEST_NULL;
    Letter letter;
  };
  struct Peer {
    double asked_at = -1;  // -1: never
    bool has_answered = true;
    std::string work;  // as in its last answer
    double quiet_s = 0;
    std::string warned_of;  // the work that the log has warned of
  };

  void receive_next();
  void send(int rank, Kind kind);
  void read(const Letter& letter, int from);
  void hear(const Sign& sign);
  void note_own_work();
  void warn(int rank, Peer& peer);

  const MPI_Comm communicator_;
  const int tag_;
  const double timeout_s_;
  RankTable& table_;
  int rank_ = 0;
  double now_ = 0;

  std::int64_t heard_ = 0;
  std::map<std::int32_t, std::int64_t> counts_;  // the largest count heard of each rank
  std::deque<std::int32_t> last_heard_;          // ranks, latest first, as many as a letter passes on

  base::DiskSigns disk_;  // at the last look
  double disk_went_on_at_ = 0;
  std::int64_t own_count_ = 0;
  Peer self_;  // this rank as others see it: when they asked it last, its work, and the warning given
  std::map<int, Peer> peers_;

  MPI_Request receive_ = MPI_REQUEST_NULL;
  Letter incoming_;
  std::vector<std::unique_ptr<Sent>> sent_;  // under way
};

}  // namespace tessera::comm

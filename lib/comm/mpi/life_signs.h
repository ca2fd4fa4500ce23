// Signs of life: what ranks that wait ask of those that they wait for. A rank that is at work in a file
// (base/disk_work.h) is alive as long as the work goes on, and, since a single call to a disk tells nothing while it
// lasts, for some time beyond; a rank that waits for such a one passes its signs on. A rank that computes, or does
// nothing, gives none.
//
// The signs are counted, not timed: clocks of hosts differ, and the time in which a process was suspended is no time.
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

// Of one rank; for the thread that drives its collectives, all calls. Letters go under a tag of their own.
class LifeSigns {
 public:
  // How long one call to a disk may take, in units of timeout_s, before it is no sign of life any more: by then the
  // ranks that wait have been told of it once.
  static constexpr double patience = 4;

  // `communicator` (which returns errors) and `table` outlive this.
  LifeSigns(MPI_Comm communicator, int tag, double timeout_s, RankTable& table);
  // What was asked and not answered is forgotten.
  ~LifeSigns();
  LifeSigns(const LifeSigns&) = delete;
  LifeSigns& operator=(const LifeSigns&) = delete;

  // Notes this rank's work, hears and answers letters. To be called several times a second. `now`: base::RunningTime.
  void look(double now);
  // Asks those of `ranks` (of the communicator) that have answered the last question, if that was long enough ago.
  void ask(std::span<const int> ranks);
  // Rises with each sign of life that was heard since: of a rank that was asked, or of one that this one waits for.
  [[nodiscard]] std::int64_t heard() const { return heard_; }
  // "rank 1 is at sync of out/shard_00001.safetensors, of which nothing has come for 12.0 s; ", of those of `ranks`
  // that said so when they answered last.
  [[nodiscard]] std::string describe(std::span<const int> ranks) const;

 private:
  struct Sign {
    std::int32_t rank = -1;  // -1: none
    std::int64_t count = 0;  // so many signs of that rank's own
  };
  enum class Kind : std::int32_t { question, answer };
  struct Letter {
    Kind kind{};
    Sign own;
    Sign passed_on[4];    // the last that it heard
    double quiet_s = 0;   // for how long nothing has come of the work
    char work[256] = {};  // empty: at work in no file
  };
  struct Sent {
    MPI_Request request = MPI_REQUEST_NULL;
    Letter letter;
  };
  struct Peer {
    double asked_at = -1;  // -1: never
    bool has_answered = true;
    std::string work;  // as it said last
    double quiet_s = 0;
    std::string warned_of;
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
  std::map<std::int32_t, std::int64_t> counts_;  // of the signs heard, by rank
  std::deque<std::int32_t> last_heard_;          // ranks, the last one first, as many as a letter passes on

  base::DiskSigns disk_;  // as seen last
  double disk_went_on_at_ = 0;
  std::int64_t own_count_ = 0;
  Peer self_;  // whom others have asked, and what was said of that
  std::map<int, Peer> peers_;

  MPI_Request receive_ = MPI_REQUEST_NULL;
  Letter incoming_;
  std::vector<std::unique_ptr<Sent>> sent_;  // under way
};

}  // namespace tessera::comm

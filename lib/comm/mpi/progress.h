// The thread that drives a process's collectives; from its start to its end no other thread calls MPI. It sleeps while
// no operation is under way. Otherwise it polls the requests and yields to other threads (sched_yield); after some
// milliseconds without a message it polls only once a millisecond, so that waiting for a slow rank or network does not
// take the processor from threads that compute. The job ends if an operation fails, or if none of the ranks that an
// operation waits for gives a sign of life (life_signs.h) for timeout_s.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/mpi/life_signs.h"
#include "comm/mpi/rank_table.h"
#include "comm/mpi/requests.h"
#include "comm/mpi/task.h"

namespace tessera::comm {

class Progress {
 public:
  // Ends the job and logs why: MPI or an operation failed, or an operation is stuck. The thread calls it once.
  using End = std::function<void(const std::string& reason)>;

  // `communicator` and `table` outlive this; nothing else uses `letter_tag`.
  Progress(MPI_Comm communicator, int letter_tag, double timeout_s, RankTable& table, End end);
  // Precondition: every operation has ended.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Starts an operation. Any thread may call it; all ranks of a group start its operations in the same order.
  void start(std::shared_ptr<Task> task);
  // For code that waits for other ranks outside of these operations: asks all ranks for signs of life and returns the
  // number heard so far. Call it repeatedly; any thread may.
  [[nodiscard]] std::int64_t ask_all();

 private:
  void run();
  void drive();
  // Yields, or sleeps for a millisecond at most.
  void pause();
  // Starts the operations that were passed to start(); blocks for a while if nothing is under way. Returns false when
  // the thread shall end.
  bool take_new();
  void drop_ended();
  void write_whereabouts();
  // Gives and hears signs of life several times a second, and ends the job if the oldest operation is stuck.
  void watch();
  void end_stuck(double age);
  [[nodiscard]] const Task& oldest() const { return *active_.front(); }

  const double timeout_s_;
  RankTable& table_;
  const End end_;
  Requests requests_;                          // used by the thread only
  std::vector<std::shared_ptr<Task>> active_;  // used by the thread only; in the order of their start
  double last_event_ = 0;                      // used by the thread only: when the last message or operation came

  // Used by the thread only, to find stuck operations; times in seconds of running_time_.
  base::RunningTime running_time_;
  LifeSigns life_;
  double next_watch_ = 0;    // in base::seconds_now()
  double watched_task_ = 0;  // identifies the oldest operation: the time of its start
  double watched_since_ = 0, last_sign_ = 0;
  std::int64_t signs_heard_ = 0;
  std::vector<int> all_ranks_;

  std::atomic<bool> asks_all_ = false;
  std::atomic<std::int64_t> heard_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Task>> new_;  // guarded by mutex_
  bool is_ending_ = false;                  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tessera::comm

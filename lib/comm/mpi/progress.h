// The thread that drives a process's collectives: it alone calls MPI between its start and its end. It sleeps while
// nothing is under way, else looks at the requests in turn with other threads (sched_yield), and after some
// milliseconds in which nothing came, once a millisecond: who waits for a slower rank or a slow network does not take
// the processor from those that compute. An operation that fails ends the job, and so does one if none of the ranks
// that it waits for has given a sign of life (life_signs.h) for timeout_s.
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
  // Says why the job must end, and ends it: MPI or an operation failed, or no progress. Called once, by the thread.
  using End = std::function<void(const std::string& reason)>;

  // `communicator` and `table` outlive this; nobody else uses `letter_tag`.
  Progress(MPI_Comm communicator, int letter_tag, double timeout_s, RankTable& table, End end);
  // Precondition: every operation has ended.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Any thread; operations of one group in the same order on all of its ranks.
  void start(std::shared_ptr<Task> task);
  // For who waits for other ranks elsewhere than in an operation of these: asks all of them for signs of life, and
  // returns how many were heard so far. To be called again and again. Any thread.
  [[nodiscard]] std::int64_t ask_all();

 private:
  void run();
  void drive();
  // Gives way to others until there may be something to do.
  void pause();
  // Takes over what was asked for since the last time; blocks while there is nothing to do. False: the end.
  bool take_new();
  void drop_ended();
  void write_whereabouts();
  // Several times a second: gives and hears signs of life, and ends the job if the oldest operation is stuck.
  void watch();
  void end_stuck(double age);
  [[nodiscard]] const Task& oldest() const { return *active_.front(); }

  const double timeout_s_;
  RankTable& table_;
  const End end_;
  Requests requests_;                          // the thread's alone
  std::vector<std::shared_ptr<Task>> active_;  // the thread's alone, in the order of their start
  double last_event_ = 0;                      // the thread's alone: when a message or an operation came last

  // The thread's alone: what it watches, in seconds of running_time_.
  base::RunningTime running_time_;
  LifeSigns life_;
  double next_watch_ = 0;    // in base::seconds_now()
  double watched_task_ = 0;  // the oldest operation, by when it started
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

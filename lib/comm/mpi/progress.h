// The thread that drives a process's collectives: it alone calls MPI between its start and its end. It sleeps while
// nothing is under way, else looks at the requests in turn with other threads (sched_yield), and after some
// milliseconds in which nothing came, once a millisecond: who waits for a slower rank or a slow network does not take
// the processor from those that compute. An operation that fails, or does not end in time, ends the job.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/mpi/rank_table.h"
#include "comm/mpi/requests.h"
#include "comm/mpi/task.h"

namespace tessera::comm {

class Progress {
 public:
  // Says why the job must end, and ends it: MPI or an operation failed, or no progress. Called once, by the thread.
  using End = std::function<void(const std::string& reason)>;

  // `communicator` and `table` outlive this. An operation that is older than timeout_s is called stuck.
  Progress(MPI_Comm communicator, double timeout_s, RankTable& table, End end);
  // Precondition: every operation has ended.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Any thread; operations of one group in the same order on all of its ranks.
  void start(std::shared_ptr<Task> task);

 private:
  void run();
  void drive();
  // Gives way to others until there may be something to do.
  void pause();
  // Takes over what was asked for since the last time; blocks while there is nothing to do. False: the end.
  bool take_new();
  void drop_ended();
  void write_whereabouts();
  void watch();
  [[nodiscard]] const Task& oldest() const { return *active_.front(); }

  const double timeout_s_;
  RankTable& table_;
  const End end_;
  Requests requests_;                          // the thread's alone
  std::vector<std::shared_ptr<Task>> active_;  // the thread's alone, in the order of their start
  double last_event_ = 0;                      // the thread's alone: when a message or an operation came last
  double next_watch_ = 0;                      // the thread's alone

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Task>> new_;  // guarded by mutex_
  bool is_ending_ = false;                  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tessera::comm

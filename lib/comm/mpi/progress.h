// The thread that drives a process's collectives: it alone calls MPI between its start and its end, and it copies and
// sums what arrives. It sleeps while nothing is under way, and where nothing has arrived it lets other threads run
// (sched_yield) before it looks again. An operation that does not end in time ends the job.
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
  // Says why the job must end, and ends it: MPI failed, or no progress. Called once, by the thread.
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
  double next_watch_ = 0;                      // the thread's alone

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Task>> new_;  // guarded by mutex_
  bool is_ending_ = false;                  // guarded by mutex_
  std::thread thread_;
};

}  // namespace tessera::comm

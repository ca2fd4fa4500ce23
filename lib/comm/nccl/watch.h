// A thread that watches this process's NCCL operations, and ends the job if one fails or takes too long.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/nccl/calls.h"
#include "comm/world.h"
#include "device/stream.h"

namespace tessera::comm {

class NcclWatch {
 public:
  // Watches the GPU that the calling thread uses. `world` outlives this.
  explicit NcclWatch(World& world);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  [[nodiscard]] CallLock& call_lock() { return call_lock_; }
  // Watches `clique` for errors. Remove it before it is destroyed.
  void add(Clique& clique);
  void remove(const Clique& clique);
  // Watches an operation between two events; `description` is as comm::describe gives it.
  void add(std::string description, device::Event started, device::Event ended);
  // Sets what this rank is doing from now on, for messages.
  void set_label(std::string_view label);

 private:
  struct Watched {
    std::string description;
    device::Event started, ended;
    double seen_at = -1;  // when the thread first saw that it had started, in running_time_; -1: not yet
  };
  void run();
  // Returns the reason to end the job; empty: none.
  [[nodiscard]] std::string look();
  // Looks again the next time if another call of NCCL is under way.
  [[nodiscard]] std::string look_at_cliques();
  [[nodiscard]] std::string look_at_operations();
  [[noreturn]] void end(const std::string& reason);
  void abort_cliques();

  World& world_;
  const int gpu_;
  CallLock call_lock_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Clique*> cliques_;     // guarded by mutex_
  std::vector<Watched> operations_;  // guarded by mutex_
  std::string label_;                // guarded by mutex_
  bool is_ending_ = false;           // guarded by mutex_
  base::RunningTime running_time_;   // guarded by mutex_
  std::int64_t signs_heard_ = 0;     // guarded by mutex_
  double last_sign_ = 0;             // guarded by mutex_; in running_time_
  std::thread thread_;
};

}  // namespace tessera::comm

// The thread that looks whether NCCL's operations of this process come to an end, and ends the job if one fails or
// takes too long.
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
  // `world` outlives this. For the GPU that the calling thread uses.
  explicit NcclWatch(World& world);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  [[nodiscard]] CallLock& call_lock() { return call_lock_; }
  // A clique is removed before it ends.
  void add(Clique& clique);
  void remove(const Clique& clique);
  // `description` as comm::describe gives it.
  void add(std::string description, device::Event started, device::Event ended);
  // What this rank does from now on.
  void set_label(std::string_view label);

 private:
  struct Watched {
    std::string description;
    device::Event started, ended;
    double seen_at = -1;  // when it was first seen to have started, in running_time_; -1: not yet
  };
  void run();
  // What has gone wrong; empty: nothing.
  [[nodiscard]] std::string look();
  [[nodiscard]] std::string look_at_cliques() const;
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

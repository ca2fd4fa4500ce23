// All ranks of a run: started once, at the top of main, and ended with it.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "comm/agreement.h"
#include "comm/communicator.h"
#include "comm/launch.h"
#include "comm/unwinding.h"

namespace tessera::comm {

struct WorldOptions {
  double timeout_s = 600;          // without a sign of life of the ranks it waits for, a collective ends the job
  std::int64_t message_bytes = 0;  // the largest message, for tests; a multiple of 8; 0: chosen by the group's size
  // What passes between ranks of a host from this size on is read from the other's memory, where the kernel lets them.
  std::int64_t read_bytes = 1 << 20;
};

// Starts MPI if a launcher of Open MPI started this process, and sets the allocator so that large buffers are kept in
// the process (an mmap and a page fault for every temporary cost 10 to 20 % of a step on a CPU). A plain start and
// `mpirun -n 1` are the same thing. Throws Error(bad_input) if more ranks are announced than MPI sees: each would take
// itself for the only one.
//
// A rank never fails alone: run() ends the job when the body throws on one rank, and so does a rank that fails while
// its World is made, and a collective that is stuck or whose messages do not fit, with one message and the failure's
// exit code. What ranks of several hosts say at the same time is said once a host.
class World {
 public:
  explicit World(const Launch& launch, const WorldOptions& options = {});
  // Waits for the other ranks; when an exception passes, ends the job.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] std::int64_t rank() const { return communicator_->rank(); }
  [[nodiscard]] std::int64_t size() const { return communicator_->size(); }
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  [[nodiscard]] double timeout_s() const { return timeout_s_; }
  // The lowest rank that can share memory with this one: the ranks of a host have the same, those of another host
  // never, whatever the hosts are called.
  [[nodiscard]] std::int64_t first_rank_of_host() const;
  // What each rank of this host is doing, a line each with a line break before it; empty if nobody launched this rank.
  [[nodiscard]] std::string whereabouts() const;

  // How many signs of life of other ranks were heard so far (a rank at work in a file gives them), after asking for
  // more: for who waits for ranks elsewhere than in `communicator()` and its groups. Any thread, again and again.
  [[nodiscard]] std::int64_t signs_of_life();

  using Describe = std::function<Failure(const std::exception_ptr&)>;
  // Calls `body` and returns its exit code. An exception is logged once and becomes its exit code: on all ranks if it
  // is an AgreedError or there is one rank, otherwise by ending the job.
  [[nodiscard]] base::ExitCode run(const std::function<base::ExitCode()>& body,
                                   const Describe& describe = describe_failure);

  // Logs `message`, unless another rank of this host has spoken before, and ends all ranks. Any thread.
  [[noreturn]] void end_job(const Failure& failure);

 private:
  class Mpi;

  double timeout_s_;
  std::shared_ptr<Communicator> communicator_;
  std::unique_ptr<Mpi> mpi_;  // null: one rank that nobody launched
  Unwinding unwinding_;
};

}  // namespace tessera::comm

// All ranks of a run. One World is made at the top of main and lives as long as main.
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
  // A collective ends the job after this time without a sign of life of the ranks that it waits for.
  double timeout_s = 600;
  std::int64_t message_bytes = 0;  // the largest message, for tests; a multiple of 8; 0: chosen by the group's size
  // Sequences of at least this many bytes pass between ranks of one host by reading the other rank's memory, where the
  // kernel permits it.
  std::int64_t read_bytes = 1 << 20;
};

// Starts MPI if a launcher of Open MPI started this process, and sets the allocator to keep large freed buffers in the
// process (an mmap and page faults for every temporary cost 10 to 20 % of a step on a CPU). A start without a launcher
// behaves like `mpirun -n 1`. Throws Error(bad_input) if MPI does not see as many ranks as the launcher announced: each
// process would take itself for the only one.
//
// A rank never fails alone. The job ends on all ranks, with one message and the failure's exit code, when the body of
// run() throws on one rank, when a rank fails while it makes its World, when a collective is stuck, and when the
// messages of a collective do not match. If ranks of several hosts fail at the same time, each host logs one message.
class World {
 public:
  explicit World(const Launch& launch, const WorldOptions& options = {});
  // Waits for the other ranks. Ends the job instead if an exception is propagating.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] std::int64_t rank() const { return communicator_->rank(); }
  [[nodiscard]] std::int64_t size() const { return communicator_->size(); }
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const { return communicator_; }
  [[nodiscard]] double timeout_s() const { return timeout_s_; }
  // Returns the lowest rank that can share memory with this one. It identifies the host: equal on the ranks of one
  // host, different on different hosts, whatever their names.
  [[nodiscard]] std::int64_t first_rank_of_host() const;
  // Describes what each rank of this host is doing, one line per rank with a line break before it (16 ranks at most).
  // Empty if no launcher started this process.
  [[nodiscard]] std::string whereabouts() const;

  // Asks the other ranks for signs of life and returns the number heard so far; a rank that is reading or writing files
  // gives them. For code that waits for other ranks outside of `communicator()` and its groups. Any thread may call it,
  // repeatedly.
  [[nodiscard]] std::int64_t signs_of_life();

  // Calls `body` and returns its exit code. If `body` throws an AgreedError, or throws anything in a world of one rank,
  // logs the message once and returns the error's code. Ends the job on any other exception. Codes and messages are
  // those of describe_failure.
  [[nodiscard]] base::ExitCode run(const std::function<base::ExitCode()>& body);

  // Ends all ranks with the failure's exit code. Logs its message unless a rank of this host has already logged why the
  // job ends. Any thread may call it.
  [[noreturn]] void end_job(const Failure& failure);

 private:
  class Mpi;

  double timeout_s_;
  std::shared_ptr<Communicator> communicator_;
  std::unique_ptr<Mpi> mpi_;  // null: one rank, started without a launcher
  Unwinding unwinding_;
};

}  // namespace tessera::comm

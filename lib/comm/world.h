// All ranks of a run: started once, at the top of main, and ended with it.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/communicator.h"
#include "comm/launch.h"

namespace tessera::comm {

// Starts MPI if a launcher of MPI started this process, and sets the allocator so that large buffers are kept in the
// process (an mmap and a page fault for every temporary cost 10 to 20 % of a step on a CPU). A plain start and `mpirun
// -n 1` are the same thing. Throws Error(bad_input) when more than one rank is announced: runs of many ranks are not
// built yet.
class World {
 public:
  explicit World(const Launch& launch);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] std::int64_t rank() const { return communicator_->rank(); }
  [[nodiscard]] std::int64_t size() const { return communicator_->size(); }
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

 private:
  std::shared_ptr<Communicator> communicator_;
  bool started_mpi_ = false;
};

}  // namespace tessera::comm

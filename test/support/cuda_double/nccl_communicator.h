// What a ncclComm_t points to, and whether it may be used.
#pragma once

#include <nccl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/cuda_double/stream.h"

// Under the lock of the runtime, but for what is atomic or fixed once it has been created.
struct ncclComm {
  enum class Life : std::uint8_t { creating, usable, finalized, destroyed, aborted };

  ~ncclComm() {
    if (creation.joinable()) creation.join();
  }

  std::string name;  // "communicator 2"
  std::uint64_t key = 0;
  int rank = 0, size = 0, device = 0;
  bool blocking = true;
  std::vector<int> processes;  // by rank

  Life life = Life::creating;
  std::thread creation;
  std::atomic<bool> created{false};
  std::atomic<ncclResult_t> error{ncclSuccess};  // what ncclCommGetAsyncError says when nothing is in progress
  // One that does not block says ncclInProgress at least once after each call.
  bool poll_once_more = false;
  std::function<void()> owed;  // enqueues what it was given
  // Of one that does not block and is being split: the part, and where it is to be said. (NCCL sets it at the end.)
  ncclComm* part = nullptr;
  ncclComm_t* part_goes_to = nullptr;

  std::atomic<bool> given_up{false};  // aborted, or stuck: its operations move nothing any more
  std::atomic<int> running{0};        // enqueued and not yet done
  // Of its last operation: behind it in its queue, its stream and when.
  std::shared_ptr<tessera::test::cuda_double::Passage> last;
  tessera::test::cuda_double::Actor last_actor = 0;
  std::uint64_t last_time = 0;
  std::uint64_t splits = 0, operations = 0;
};

namespace tessera::test::cuda_double {

// In seconds.
extern std::atomic<double> stuck_after_s;

// Kept until the process ends, so that a use of a destroyed one can be told.
[[nodiscard]] ncclComm* make_communicator();
// Null, and a fault in the name of `call`, if there is no such communicator or it is no longer usable.
[[nodiscard]] ncclComm* living(ncclComm_t handle, std::string_view call);
// The same for one that is not creating, and has nothing in progress.
[[nodiscard]] ncclComm* ready(ncclComm_t handle, std::string_view call);

// What ncclCommGetAsyncError says; enqueues what is owed.
[[nodiscard]] ncclResult_t poll(ncclComm& communicator);
// Waits, without the lock, until its operations are done.
void wait_for_operations(const ncclComm& communicator);

void report_unpolled_communicators(std::string_view where);
// At the end of the process. Their operations end too.
void report_leaked_communicators();
[[nodiscard]] int count_living_communicators();

// "rank 1 of communicator 2 (size 4)".
[[nodiscard]] std::string describe(const ncclComm& communicator);

}  // namespace tessera::test::cuda_double

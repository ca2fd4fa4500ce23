// The object behind an ncclComm_t, and whether it may be used.
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

// Guarded by the lock of the runtime, except for members that are atomic or fixed after creation.
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
  std::atomic<ncclResult_t> error{ncclSuccess};  // for ncclCommGetAsyncError when nothing is in progress
  // A communicator that does not block returns ncclInProgress at least once after each call.
  bool poll_once_more = false;
  std::function<void()> owed;  // enqueues the operations that it was given
  // For one that does not block and is being split: the part, and the handle to set. (NCCL sets it at the end.)
  ncclComm* part = nullptr;
  ncclComm_t* part_goes_to = nullptr;

  std::atomic<bool> given_up{false};  // aborted, or stuck: its operations move nothing any more
  std::atomic<int> running{0};        // enqueued and not yet done
  // The end of its last operation in the queue of its stream, that stream, and the time there.
  std::shared_ptr<tessera::test::cuda_double::Passage> last;
  tessera::test::cuda_double::Actor last_actor = 0;
  std::uint64_t last_time = 0;
  std::uint64_t splits = 0, operations = 0;
};

namespace tessera::test::cuda_double {

// In seconds.
extern std::atomic<double> stuck_after_s;

// Makes a communicator, which is kept until the process ends, so that a use after its destruction is recognised.
[[nodiscard]] ncclComm* make_communicator();
// Returns the communicator; null, after a fault that names `call`, if there is no such communicator or it is no longer
// usable.
[[nodiscard]] ncclComm* living(ncclComm_t handle, std::string_view call);
// The same; it must also have finished its creation and have nothing in progress.
[[nodiscard]] ncclComm* ready(ncclComm_t handle, std::string_view call);

// Reports a fault if another thread is within a call of the same communicator.
class OneThread {
 public:
  OneThread(ncclComm_t handle, std::string_view call);
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  ncclComm_t handle_;
};

// Reports a fault if the process has a communicator already and the order of launches is not enforced: NCCL promises no
// progress then.
void expect_launch_order();

// Returns the result of ncclCommGetAsyncError; enqueues the operations that are owed.
[[nodiscard]] ncclResult_t poll(ncclComm& communicator);
// Waits until its operations are done, without holding the lock.
void wait_for_operations(const ncclComm& communicator);

void report_unpolled_communicators(std::string_view where);
// At the end of the process. Their operations end too.
void report_leaked_communicators();
[[nodiscard]] int count_living_communicators();

// "rank 1 of communicator 2 (size 4)".
[[nodiscard]] std::string describe(const ncclComm& communicator);

}  // namespace tessera::test::cuda_double

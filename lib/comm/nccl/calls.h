// Wraps NCCL's communicators, errors and types.
//
// All communicators are non-blocking (NCCL User Guide, "Creating a communicator with options"): a call returns at once.
// While the communicator is "in progress" it accepts no other call, and the work may not be in its stream yet.
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "comm/communicator.h"

namespace tessera::comm {

[[nodiscard]] ncclDataType_t nccl_type(ElementType type);
[[nodiscard]] ncclRedOp_t nccl_operation(ReduceOperation operation);

// Throws Error(rank_failed) with NCCL's error text unless `result` is success or "in progress". `of`, which may be
// null, adds the communicator's last error.
void check_nccl(ncclResult_t result, std::string_view call, ncclComm_t of);

// Guards this process's calls of NCCL. The thread that ends the job locks it for good, so that no call uses a
// communicator that is being aborted.
using CallLock = std::timed_mutex;

// The ncclComm of one lane of a group. NCCL calls the set of connected ncclComms a clique; this is this rank's part.
class Clique {
 public:
  // Collective over `host`: makes a clique of its ranks. Precondition: `host` has several ranks. Throws
  // Error(rank_failed) if not all ranks have joined after timeout_s. `lock` outlives this.
  Clique(Communicator& host, double timeout_s, CallLock& lock);
  // Collective over `first`: makes another clique of the same ranks without communicating over the host. Precondition:
  // no operation of `first` is under way.
  explicit Clique(Clique& first);
  // Collective: waits for the operations under way. Does nothing while an exception propagates.
  ~Clique();
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;

  // Calls `calls` with this ncclComm between ncclGroupStart and ncclGroupEnd, and returns when all the work is in its
  // stream. Calls ncclGroupEnd also if `calls` throws.
  void in_group(const std::function<void(ncclComm_t)>& calls);
  // Returns success, "in progress" or the error. On success NCCL completes what is pending and frees it, so the caller
  // holds the lock.
  [[nodiscard]] ncclResult_t state() const;
  // Aborts the operations under way. The caller holds the lock, and must call nothing else afterwards.
  void abort();

 private:
  // Blocks until the communicator is no longer "in progress". Throws Error(rank_failed) on errors and after timeout_s.
  void settle(std::string_view call) const;
  void finalize();

  const double timeout_s_;
  CallLock& lock_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace tessera::comm

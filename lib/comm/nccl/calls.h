// NCCL's calls, its errors as ours, and its words for our types.
//
// All communicators are non-blocking (NCCL User Guide, "Creating a communicator with options"): a call returns at once,
// and until the communicator is no longer "in progress" nothing else may be asked of it, and what was asked for may not
// be in its stream yet.
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

// Throws Error(rank_failed) in NCCL's words unless `result` is success or "in progress". `of` may be null.
void check_nccl(ncclResult_t result, std::string_view call, ncclComm_t of);

// What guards NCCL's calls of this process: who ends the job takes it and keeps it, so that no call meets a
// communicator that is being aborted.
using CallLock = std::timed_mutex;

// The ncclComm of one lane of a group: in NCCL's word, this rank's part of a clique.
class Clique {
 public:
  // Collective over `host`, a group of several ranks; its ranks are the clique's. Throws Error(rank_failed) where not
  // all have come after timeout_s. `lock` outlives this.
  Clique(Communicator& host, double timeout_s, CallLock& lock);
  // Collective over `first`, in which nothing is under way: another clique of the same ranks, without an exchange over
  // the host.
  explicit Clique(Clique& first);
  // Collective, unless an exception passes: what was started is seen through to its end.
  ~Clique();
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;

  // Calls `calls` with this ncclComm between ncclGroupStart and ncclGroupEnd (the ends of an exception too), and
  // returns when all that they ask for is in its stream.
  void in_group(const std::function<void(ncclComm_t)>& calls);
  // Any thread, without the lock: success, "in progress", or what went wrong.
  [[nodiscard]] ncclResult_t state() const;
  // Gives up what is under way. With the lock; nothing else may be called afterwards.
  void abort();

 private:
  void settle(std::string_view call) const;
  void finalize();

  const double timeout_s_;
  CallLock& lock_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace tessera::comm

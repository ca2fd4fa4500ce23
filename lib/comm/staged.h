// Collectives on memory of the GPU by way of the host: what an operation needs is copied to pinned memory, passed
// between ranks in the host's memory, and copied back. The host waits twice an operation: slow, and correct without
// NCCL; the reference for it (--train.accelerator.backend mpi).
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace tessera::comm {

// The ranks of `host`, a communicator of host memory. An operation takes its values after what
// device::Stream::compute() was given before the call; its handle's wait() returns when the results are in the order of
// that stream. Sums have the host's bits.
[[nodiscard]] std::shared_ptr<Communicator> staged_communicator(std::shared_ptr<Communicator> host);

}  // namespace tessera::comm

// Collectives on GPU memory by way of the host (--train.accelerator.backend mpi): an operation copies its data to
// pinned memory, communicates in host memory, and copies the results back. It is slow, as the host waits twice for each
// operation, but it needs no NCCL and is the reference for NCCL's results.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace tessera::comm {

// Returns a communicator of the ranks of `host`, which is a communicator on host memory. An operation reads its values
// after the work that device::Stream::compute() was given before the call. Its handle's wait() returns when the results
// are in GPU memory. Sums have the bits of `host`.
[[nodiscard]] std::shared_ptr<Communicator> staged_communicator(std::shared_ptr<Communicator> host);

}  // namespace tessera::comm

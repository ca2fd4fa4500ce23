// Operations of one communicator and one group call: enqueued as one, and run against the other ranks.
//
// Checked where ranks meet: they call the same collectives in the same order, with the same count, type, reduction and
// root; a send and its receive agree in count and type ("Collective Communication Functions", "Point To Point
// Communication Functions"); two ranks that share several communicators launch on them in the same order ("Using
// multiple NCCL communicators concurrently"). Operations that wait too long for another rank are a fault that names
// them, and their communicator moves nothing any more.
#pragma once

#include <vector>

#include "support/cuda_double/nccl_operation.h"

namespace tessera::test::cuda_double {

// Under the lock of the runtime. On all of their streams if they name several: it begins when all have come so far, and
// all wait for its end ("CUDA Stream Semantics"). `operations` are all of one communicator, which is ready.
// `host` is what the thread knew that called them.
void enqueue_operations(std::vector<NcclOperation> operations, const VectorClock& host);

}  // namespace tessera::test::cuda_double

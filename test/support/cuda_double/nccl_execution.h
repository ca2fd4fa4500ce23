// Enqueues the operations of one communicator and one group call as one, and runs them together with the other ranks.
//
// Checks, where ranks meet: they call the same collectives in the same order, with the same count, type, reduction and
// root; a send and its receive agree in count and type ("Collective Communication Functions", "Point To Point
// Communication Functions"); two ranks that share several communicators launch on them in the same order ("Using
// multiple NCCL communicators concurrently"). Operations that wait too long for another rank are a fault that names
// them; their communicator moves nothing afterwards.
#pragma once

#include <vector>

#include "support/cuda_double/nccl_operation.h"

namespace tessera::test::cuda_double {

// Enqueues on all streams that the operations name: they begin when all these streams have come so far, and all these
// streams wait for their end ("CUDA Stream Semantics"). `operations` belong to one communicator, which is ready. `host`
// is the knowledge of the thread that called them. The caller holds the lock of the runtime.
void enqueue_operations(std::vector<NcclOperation> operations, const VectorClock& host);

}  // namespace tessera::test::cuda_double

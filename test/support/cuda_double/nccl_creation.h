// Creates communicators. (NCCL user guide, "Creating a Communicator" and "Communicator Creation and Management
// Functions".) Checks: the id is from ncclGetUniqueId and makes one communicator; every rank joins once, with the same
// size, and each on its own GPU; the configuration is initialized; a split has no outstanding operation of the parent.
#pragma once

#include <nccl.h>

#include "support/cuda_double/nccl_communicator.h"

namespace tessera::test::cuda_double {

// Both begin the creation of `*made`, which finish_creation() ends. A part without a colour cannot be used afterwards.
ncclResult_t begin_joining(ncclComm_t* made, int size, const ncclUniqueId& id, int rank, const ncclConfig_t* config);
// A parent that does not block sets `*to` when it is polled after the split has ended.
ncclResult_t begin_split(ncclComm& parent, int color, int key, ncclComm_t* to, ncclComm** made,
                         const ncclConfig_t* config);
// Waits for a communicator that blocks.
ncclResult_t finish_creation(ncclComm& communicator);

}  // namespace tessera::test::cuda_double

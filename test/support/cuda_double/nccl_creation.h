// How communicators come to be. (NCCL user guide, "Creating a Communicator" and "Communicator Creation and Management
// Functions".) Checked: the id is from ncclGetUniqueId and makes one communicator; every rank of it comes, once, with
// the same size, and each on a GPU of its own; the configuration was initialized; a split has no operation of the
// parent outstanding.
#pragma once

#include <nccl.h>

#include "support/cuda_double/nccl_communicator.h"

namespace tessera::test::cuda_double {

// Both begin; `*made` is what finish_creation() ends. A part of no colour cannot be used then.
ncclResult_t begin_joining(ncclComm_t* made, int size, const ncclUniqueId& id, int rank, const ncclConfig_t* config);
// A parent that does not block sets `*to` when it is polled after the end.
ncclResult_t begin_split(ncclComm& parent, int color, int key, ncclComm_t* to, ncclComm** made,
                         const ncclConfig_t* config);
// Waits for a communicator that blocks.
ncclResult_t finish_creation(ncclComm& communicator);

}  // namespace tessera::test::cuda_double

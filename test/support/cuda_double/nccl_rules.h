// Checks the arguments of one rank against the documentation of NCCL (user guide: "Collective Communication Functions",
// "Point To Point Communication Functions", "In-place Operations", "Data Pointers"). nccl_execution.h checks, where
// ranks meet, what they must agree on.
#pragma once

#include "support/cuda_double/nccl_operation.h"

namespace tessera::test::cuda_double {

// Returns ncclSuccess, or an error after reporting a fault. Type and reduction must be known to NCCL (and to the
// double, which sums no 16-bit or 8-bit floating type but bfloat16 and forms no averages); root or peer must be a rank;
// buffers must be device or pinned memory of the communicator's GPU, within bounds; buffers that overlap must be
// exactly in place; the stream must be one of that GPU.
[[nodiscard]] ncclResult_t check_arguments(const NcclOperation& operation);

// Reports a fault for each two operations of one group of which one writes bytes that the other touches, since they run
// at the same time. ("Point-to-point communication": calls within a group progress independently.)
void check_apart(const std::vector<NcclOperation>& group);

}  // namespace tessera::test::cuda_double

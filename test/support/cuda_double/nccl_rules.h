// What NCCL documents of the arguments of one rank (NCCL user guide: "Collective Communication Functions",
// "Point To Point Communication Functions", "In-place Operations", "Data Pointers"). What ranks must agree on is
// checked where they meet: nccl_execution.h.
#pragma once

#include "support/cuda_double/nccl_operation.h"

namespace tessera::test::cuda_double {

// ncclSuccess, or a fault was reported: type and reduction are of NCCL (and of the double: no 16-bit or 8-bit floating
// type but bfloat16 is summed, and averages are not), root or peer is a rank, buffers are device or pinned memory of
// the communicator's GPU within bounds, buffers that overlap are exactly in place, the stream is one of that GPU.
[[nodiscard]] ncclResult_t check_arguments(const NcclOperation& operation);

// A fault for each two operations of one group of which one writes what the other touches: they run at the same time.
// ("Point-to-point communication": calls within a group progress independently.)
void check_apart(const std::vector<NcclOperation>& group);

}  // namespace tessera::test::cuda_double

// The reductions of the NCCL double.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace tessera::test::cuda_double {

// Sets into[k] to into[k] (op) other[k], rounded to the type. bfloat16 is computed in float32 and rounded to nearest
// even each time; a maximum or minimum is NaN only if both values are. NCCL's order of ranks depends on its algorithm;
// the double adds ranks in ascending order. `type` and `reduction` must have passed nccl_rules.h.
void reduce_into(std::byte* into, const std::byte* other, std::size_t count, ncclDataType_t type,
                 ncclRedOp_t reduction);

}  // namespace tessera::test::cuda_double

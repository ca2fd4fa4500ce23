// Sums as the double of NCCL computes them.
#pragma once

#include <nccl.h>

#include <cstddef>

namespace tessera::test::cuda_double {

// into[k] = into[k] (op) other[k], rounded to the type; for bfloat16 computed in float32, and rounded to nearest even
// each time; a maximum or minimum is NaN only where all are. NCCL's order of ranks depends on its algorithm; here ranks
// are added in their order. `type` and `reduction` are those that nccl_rules.h lets through.
void reduce_into(std::byte* into, const std::byte* other, std::size_t count, ncclDataType_t type,
                 ncclRedOp_t reduction);

}  // namespace tessera::test::cuda_double

// The GPU kernels of this folder, implemented in kernels.cu.
#pragma once

#include "comm/nccl/rank_order_sum.h"
#include "device/stream.h"

namespace tessera::comm {

// Computes `sum` in the order of `stream`; does nothing if it has no elements. Its pointers are to GPU memory, which
// must stay valid until the stream has passed this call.
void launch_rank_order_sum(const RankOrderSum& sum, const device::Stream& stream);

}  // namespace tessera::comm

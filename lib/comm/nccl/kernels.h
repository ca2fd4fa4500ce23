// What this folder has the GPU compute. kernels.cu.
#pragma once

#include "comm/nccl/rank_order_sum.h"
#include "device/stream.h"

namespace tessera::comm {

// In the order of `stream`; nothing for no elements. What it reads and writes lies in memory of the GPU and stays until
// the stream has come so far.
void launch_rank_order_sum(const RankOrderSum& sum, const device::Stream& stream);

}  // namespace tessera::comm

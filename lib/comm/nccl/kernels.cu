#include "comm/nccl/kernels.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/check.h"

namespace tessera::comm {

namespace {

constexpr int threads = 256;

template <class Value, class Total>
__global__ void __launch_bounds__(threads) rank_order_sum(RankOrderSum sum) {
  const auto first = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const auto step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t row = blockIdx.y; row < sum.rows; row += gridDim.y)
    for (auto column = first; column < sum.row_elements; column += step)
      rank_order::sum_element<Value, Total>(sum, row, column);
}

}  // namespace

void launch_rank_order_sum(const RankOrderSum& sum, const device::Stream& stream) {
  if (sum.rows == 0 || sum.row_elements == 0) return;
  // Enough blocks for the largest GPU, few enough that each has something to do.
  constexpr std::int64_t most_across = 2048, most_down = 65535;
  const dim3 grid(static_cast<unsigned>(std::min((sum.row_elements + threads - 1) / threads, most_across)),
                  static_cast<unsigned>(std::min(sum.rows, most_down)));
  with_types(sum.type, [&]<class Value, class Total>(Value, Total) {
    rank_order_sum<Value, Total><<<grid, threads, 0, stream.native()>>>(sum);
  });
  device::check_cuda(cudaGetLastError(), "rank_order_sum");
}

}  // namespace tessera::comm

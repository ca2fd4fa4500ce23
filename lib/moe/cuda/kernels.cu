#include "moe/cuda/kernels.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "device/cuda/check.h"
#include "device/stream.h"

namespace tessera::moe::cuda {

namespace {

constexpr int threads = 256, rows_at_once = threads / lanes;

// Returns enough blocks to keep the largest GPU busy; a block takes `rows_at_once` rows at a time, one grid apart.
unsigned blocks_for(std::int64_t rows) {
  constexpr std::int64_t most = 1 << 16;
  return static_cast<unsigned>(std::min((rows + rows_at_once - 1) / rows_at_once, most));
}

// Calls body(row, lane) on each lane of each row.
template <class Body>
__device__ void for_rows(std::int64_t rows, const Body& body) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const auto first = static_cast<std::int64_t>(blockIdx.x) * rows_at_once + static_cast<int>(threadIdx.x) / lanes;
  const auto step = static_cast<std::int64_t>(gridDim.x) * rows_at_once;
  for (auto row = first; row < rows; row += step) body(row, lane);
}

template <class Value, class Result, int width, Values values>
__global__ void __launch_bounds__(threads) slot_sum(SlotSum sum) {
  for_rows(sum.rows, [&](std::int64_t row, int lane) { sum_slots<Value, Result, width, values>(sum, row, lane); });
}

template <class T, int width>
__global__ void __launch_bounds__(threads) weighted_swiglu(WeightedSwiglu swiglu) {
  for_rows(swiglu.slots, [&](std::int64_t slot, int lane) { activate<T, width>(swiglu, slot, lane); });
}

template <class T, int width>
__global__ void __launch_bounds__(threads) weighted_swiglu_gradient(WeightedSwigluGradient swiglu) {
  for_rows(swiglu.slots, [&](std::int64_t slot, int lane) {
    float total = differentiate<T, width>(swiglu, slot, lane);
    // A tree over the lanes, so the order of the sum is fixed.
    for (int distance = lanes / 2; distance > 0; distance /= 2) total += __shfl_xor_sync(~0U, total, distance);
    if (lane == 0) swiglu.d_weight[slot] = total;
  });
}

cudaStream_t stream() { return device::Stream::compute().native(); }

}  // namespace

void launch(const SlotSum& sum) {
  if (sum.rows == 0) return;
  with_variant(sum, [&]<class Value, class Result, int width, Values values>() {
    slot_sum<Value, Result, width, values><<<blocks_for(sum.rows), threads, 0, stream()>>>(sum);
  });
  device::check_cuda(cudaGetLastError(), "slot_sum");
}

void launch(const WeightedSwiglu& swiglu) {
  if (swiglu.slots == 0) return;
  with_variant(swiglu, [&]<class T, int width>() {
    weighted_swiglu<T, width><<<blocks_for(swiglu.slots), threads, 0, stream()>>>(swiglu);
  });
  device::check_cuda(cudaGetLastError(), "weighted_swiglu");
}

void launch(const WeightedSwigluGradient& swiglu) {
  if (swiglu.slots == 0) return;
  with_variant(swiglu, [&]<class T, int width>() {
    weighted_swiglu_gradient<T, width><<<blocks_for(swiglu.slots), threads, 0, stream()>>>(swiglu);
  });
  device::check_cuda(cudaGetLastError(), "weighted_swiglu_gradient");
}

}  // namespace tessera::moe::cuda

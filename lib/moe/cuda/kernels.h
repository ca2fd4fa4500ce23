// Our own GPU kernels, for work in which several LibTorch operations would each pass over the same memory. They are in
// kernels.cu; a build without CUDA has no_cuda/kernels.cpp instead. moe/activation_gpu.h and moe/slot_sum_gpu.h call
// them with tensors.
//
// Each call launches one kernel on device::Stream::compute(), in order with LibTorch's operations, or none if there are
// no rows; the host does not wait. Results have the same bits every time: no atomics.
//
// Left to LibTorch:
// - The permutation, rows by slot: at::index_select reads and writes each element once, 16 bytes a thread. Only a
//   grouped product that gathers its own operand would move less, and LibTorch has none.
// - Which rows go to which owner, each once (moe/pack_gpu.cpp): some twenty operations on one number per (owner,
//   token), a few MB for 8192 tokens and 8 owners, against 32 MB of rows. All are launched while the GPU still computes
//   earlier work, before the host waits for the counts: fewer launches would save no time.
#pragma once

#include "moe/cuda/slot_sum.h"
#include "moe/cuda/weighted_swiglu.h"

namespace tessera::moe::cuda {

void launch(const SlotSum& sum);
void launch(const WeightedSwiglu& swiglu);
void launch(const WeightedSwigluGradient& swiglu);

}  // namespace tessera::moe::cuda

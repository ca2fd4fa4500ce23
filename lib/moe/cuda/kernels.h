// What this room has a GPU compute by kernels of its own: where several of LibTorch's operations would pass over the
// same memory. kernels.cu, in a build without CUDA no_cuda/kernels.cpp. Tensors: moe/gpu/activation.h, slot_sum.h.
//
// Each launches on device::Stream::compute(), in the order of LibTorch's operations, and the host does not wait; no
// work for no rows. The same bits every time: no atomics.
//
// Left to LibTorch:
// - The permutation, rows by slot: at::index_select reads and writes each element once, 16 bytes a thread. Less would
//   take a grouped product that gathers its own operand, which LibTorch has not.
// - Which rows go to which owner, each once (moe/gpu/dispatch.cpp): some twenty operations on a number for each (owner,
//   token), a few MB for 8192 tokens and 8 owners, against 32 MB of rows. All are launched before the host waits for
//   the counts, behind what the GPU is still computing: fewer launches would not be noticed.
#pragma once

#include "moe/cuda/slot_sum.h"
#include "moe/cuda/weighted_swiglu.h"

namespace tessera::moe::cuda {

void launch(const SlotSum& sum);
void launch(const WeightedSwiglu& swiglu);
void launch(const WeightedSwigluGradient& swiglu);

}  // namespace tessera::moe::cuda

#include "moe/cuda/kernels.h"

#include "base/error.h"

namespace tessera::moe::cuda {

namespace {

// Never reached: without CUDA find_gpus() finds no GPU.
void refuse(const char* what) { base::expect(false, "{} by a GPU in a program that was built without CUDA", what); }

}  // namespace

void launch(const SlotSum&) { refuse("a sum of slots"); }

void launch(const WeightedSwiglu&) { refuse("SwiGLU"); }

void launch(const WeightedSwigluGradient&) { refuse("the gradient of SwiGLU"); }

}  // namespace tessera::moe::cuda

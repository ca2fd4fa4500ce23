// Errors of the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::device {

// Throws Error(rank_failed) with CUDA's error text unless `result` is cudaSuccess. The error may be that of an earlier
// operation on the GPU (CUDA Runtime API, "Error Handling"). `call` is the name of the call: "cudaEventRecord".
void check_cuda(cudaError_t result, const char* call);

}  // namespace tessera::device

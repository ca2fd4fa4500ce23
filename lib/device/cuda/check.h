// Errors of the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

namespace tessera::device {

// Throws Error(rank_failed) in CUDA's words unless `result` is cudaSuccess. The error may be that of an earlier
// operation on the GPU (CUDA Runtime API, "Error Handling"). `call`: "cudaEventRecord".
void check_cuda(cudaError_t result, const char* call);

}  // namespace tessera::device

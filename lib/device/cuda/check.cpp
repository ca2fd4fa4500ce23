#include "device/cuda/check.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tessera::device {

void check_cuda(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  // Clears the error; otherwise LibTorch would find it after its next kernel and blame that kernel.
  static_cast<void>(cudaGetLastError());
  throw base::Error(base::ExitCode::rank_failed, fmt::format("the GPU failed in {}, or before it: {} ({})", call,
                                                             cudaGetErrorString(result), cudaGetErrorName(result)));
}

}  // namespace tessera::device

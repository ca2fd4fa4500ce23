// The GPUs that this process may use. cuda/gpu.cpp or no_cuda/gpu.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::device {

struct Gpus {
  std::int64_t count = 0;
  // If there are none: what is missing and how to get it, such as "this program was built without CUDA: ...".
  std::string missing;
};

// Loads LibTorch's CUDA part the first time. Never throws for a machine without GPUs.
[[nodiscard]] Gpus find_gpus();

// From now on this process computes on GPU `index` of those that it sees; 0 <= index < find_gpus().count. Once, before
// any stream, memory or tensor of the GPU is made.
void use_gpu(std::int64_t index);

// "NVIDIA H200, 139.8 GiB".
[[nodiscard]] std::string describe_gpu(std::int64_t index);

}  // namespace tessera::device

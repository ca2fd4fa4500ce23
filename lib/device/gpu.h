// The GPUs that this process may use. cuda/gpu.cpp or no_cuda/gpu.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::device {

struct Gpus {
  std::int64_t count = 0;
  // If there are none: what is missing ("this program was built without CUDA") and how to get it ("install ...").
  std::string missing, way_out;
  // Of each the same number in every process of the host that sees it, and of no other GPU there.
  std::vector<std::int64_t> identities;
};

// Loads LibTorch's CUDA part the first time, if there is a GPU. Never throws for a machine without GPUs.
[[nodiscard]] Gpus find_gpus();

// From now on this process computes on GPU `index` of those that it sees; 0 <= index < find_gpus().count. Once, before
// any stream, memory or tensor of the GPU is made. CUDA's choice is a thread's: another one that touches the GPU calls
// this too.
void use_gpu(std::int64_t index);

// "NVIDIA H200, 139.8 GiB".
[[nodiscard]] std::string describe_gpu(std::int64_t index);

}  // namespace tessera::device

// The GPUs that this process may use. Implemented in cuda/gpu.cpp or no_cuda/gpu.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::device {

struct Gpus {
  std::int64_t count = 0;
  // If there is no GPU: what is missing ("this program was built without CUDA") and how to get it ("install ...").
  std::string missing, way_out;
  // One number per GPU that identifies it on this host: the same in every process, and different for other GPUs.
  std::vector<std::int64_t> identities;
};

// Finds the GPUs that this process sees. Loads LibTorch's CUDA part the first time, if there is a GPU. Does not throw
// on a machine without GPUs.
[[nodiscard]] Gpus find_gpus();

// Makes this process compute on GPU `index` of those that it sees. Call it once, before any stream, memory or tensor of
// the GPU is made; CUDA keeps the choice per thread, so each other thread that uses the GPU calls it too. Throws
// Error(bad_input) if the GPU is too old or cannot be used. Precondition: 0 <= index < find_gpus().count.
void use_gpu(std::int64_t index);

// Returns the GPU's name and memory: "NVIDIA H200, 139.8 GiB".
[[nodiscard]] std::string describe_gpu(std::int64_t index);

}  // namespace tessera::device

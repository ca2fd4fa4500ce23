// The place where a run keeps its tensors and computes.
#pragma once

#include <cstdint>

namespace tessera::device {

// cuda: the GPU that use_gpu() chose (gpu.h).
enum class Place : std::uint8_t { cpu, cuda };

}  // namespace tessera::device

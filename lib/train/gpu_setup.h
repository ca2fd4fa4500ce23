// Prepares LibTorch and the communicator of a run on GPUs, before its first tensor.
#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <string_view>

#include "comm/world.h"
#include "config/settings.h"
#include "train/device_choice.h"

namespace tessera::train {

// Makes LibTorch compute products of float32 in float32, not in TF32, sum products of bfloat16 in float32, and never
// choose cuDNN's attention; with enable_full_determinism it also uses only kernels that give the same bits each time.
// Does nothing on the CPU, where all of that holds anyway. Call it before LibTorch
// first uses a GPU.
void set_numerics(const config::TrainSettings& train, device::Place place);

// Names the kernel of attention that LibTorch takes on a GPU for numbers of a type: "FlashAttention" for bfloat16,
// "memory-efficient attention" for float32.
[[nodiscard]] std::string_view attention_kernel(at::ScalarType compute);

// Returns the world's communicator for memory of the GPUs, with the backend of `choice`. Returns null on the CPU, and
// for one rank, which communicates with nobody. Collective over the world.
[[nodiscard]] std::shared_ptr<comm::Communicator> make_gpu_world(const DeviceChoice& choice,
                                                                 const config::TrainSettings& train,
                                                                 comm::World& world);

}  // namespace tessera::train

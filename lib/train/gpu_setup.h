// Prepares LibTorch and the communicator of a run on GPUs, before its first tensor.
#pragma once

#include <memory>

#include "comm/world.h"
#include "config/settings.h"
#include "train/device_choice.h"

namespace tessera::train {

// Makes LibTorch compute products of float32 in float32, not in TF32; with enable_full_determinism it also uses only
// kernels that give the same bits each time. Does nothing on the CPU, where both hold anyway. Call it before LibTorch
// first uses a GPU.
void set_numerics(const config::TrainSettings& train, device::Place place);

// Returns the world's communicator for memory of the GPUs, with the backend of `choice`. Returns null on the CPU, and
// for one rank, which communicates with nobody. Collective over the world.
[[nodiscard]] std::shared_ptr<comm::Communicator> make_gpu_world(const DeviceChoice& choice,
                                                                 const config::TrainSettings& train,
                                                                 comm::World& world);

}  // namespace tessera::train

// What a run on GPUs sets up once, before its first tensor.
#pragma once

#include <memory>

#include "comm/world.h"
#include "config/settings.h"
#include "train/device_choice.h"

namespace tessera::train {

// How LibTorch computes on a GPU: float32 products are float32's, not TF32's, and with enable_full_determinism only
// kernels that give the same bits each time. Nothing on the CPU, where that is so. Before LibTorch's first use of a
// GPU.
void set_numerics(const config::TrainSettings& train, device::Place place);

// The world's communicator for memory of the GPUs, over what `choice` says; null on the CPU, and for one rank, which
// has nobody to talk to. Collective over the world.
[[nodiscard]] std::shared_ptr<comm::Communicator> make_gpu_world(const DeviceChoice& choice,
                                                                 const config::TrainSettings& train,
                                                                 comm::World& world);

}  // namespace tessera::train

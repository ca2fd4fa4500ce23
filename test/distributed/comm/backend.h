// The backend that the suite tests: collectives on host memory (host_backend.cpp), or on a GPU's memory, in fact a
// double of it (gpu_backend.cpp).
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/place.h"

namespace tessera::test {

// Makes a communicator of all ranks. Collective over the world.
[[nodiscard]] std::shared_ptr<comm::Communicator> make_backend();

// Returns where its memory is.
[[nodiscard]] device::Place backend_place();

enum class SumBits { of_rank_order, of_the_backend };
// Returns whether sums of float32 and float64 have the bits of a sum in rank order.
[[nodiscard]] SumBits backend_bits();

}  // namespace tessera::test

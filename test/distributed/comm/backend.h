// What the suite runs on: collectives on memory of the host, or of the GPU (a double of it, in the program for that).
// host_backend.cpp or gpu_backend.cpp.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "device/place.h"

namespace tessera::test {

// Collective over the world: a communicator of all its ranks.
[[nodiscard]] std::shared_ptr<comm::Communicator> make_backend();

// Where its memory is.
[[nodiscard]] device::Place backend_place();

enum class SumBits { of_rank_order, of_the_backend };
// Whether sums of float32 and float64 have the bits of a sum in the order of the ranks.
[[nodiscard]] SumBits backend_bits();

}  // namespace tessera::test

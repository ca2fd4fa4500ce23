#include "backend.h"
#include "support/ranks.h"

namespace tessera::test {

std::shared_ptr<comm::Communicator> make_backend() { return world().communicator(); }

device::Place backend_place() { return device::Place::cpu; }

SumBits backend_bits() { return SumBits::of_rank_order; }

}  // namespace tessera::test

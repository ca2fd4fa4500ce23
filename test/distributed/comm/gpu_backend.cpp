// The environment's TESSERA_TEST_BACKEND: nccl (if it is not set), nccl_padded, nccl_by_rank, staged.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>

#include "backend.h"
#include "base/error.h"
#include "comm/nccl.h"
#include "comm/staged.h"
#include "support/ranks.h"

namespace tessera::test {

namespace {

std::string backend() {
  const char* name = std::getenv("TESSERA_TEST_BACKEND");
  return name == nullptr ? "nccl" : name;
}

}  // namespace

std::shared_ptr<comm::Communicator> make_backend() {
  cudaSetDevice(static_cast<int>(world().rank()));
  const auto name = backend();
  if (name == "staged") return comm::staged_communicator(world().communicator());
  if (name == "nccl") return comm::nccl_communicator(world());
  if (name == "nccl_padded") return comm::nccl_communicator(world(), {.uneven_blocks = comm::UnevenBlocks::padded});
  base::expect(name == "nccl_by_rank", "TESSERA_TEST_BACKEND = '{}'", name);
  return comm::nccl_communicator(world(), {.sum_order = comm::SumOrder::by_rank});
}

device::Place backend_place() { return device::Place::cuda; }

SumBits backend_bits() {
  return backend() == "nccl" || backend() == "nccl_padded" ? SumBits::of_the_backend : SumBits::of_rank_order;
}

}  // namespace tessera::test

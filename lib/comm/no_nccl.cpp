#include "base/error.h"
#include "comm/nccl.h"

namespace tessera::comm {

// Never called: a program without CUDA finds no GPU.
std::shared_ptr<Communicator> nccl_communicator(World&, const NcclOptions&) {
  base::expect(false, "NCCL in a program that was built without CUDA");
  return nullptr;
}

}  // namespace tessera::comm

#include "device/gpu.h"

#include "base/error.h"

namespace tessera::device {

Gpus find_gpus() {
  return {.missing = "this program was built without CUDA",
          .way_out = "install CUDA 13.0 with nvcc, and build with scripts/build.sh --cuda",
          .identities = {}};
}

void use_gpu(std::int64_t index) { base::expect(false, "GPU {} of a program without CUDA", index); }

std::string describe_gpu(std::int64_t index) {
  base::expect(false, "GPU {} of a program without CUDA", index);
  return {};
}

}  // namespace tessera::device

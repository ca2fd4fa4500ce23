#include "device/gpu.h"

#include <ATen/Context.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <climits>
#include <cstdlib>

#include "base/error.h"
#include "base/hash.h"
#include "base/quantity.h"

namespace tessera::device {
namespace {

constexpr const char* library_name = "libtorch_cuda.so";
constexpr int oldest_major = 8;  // the first of TESSERA_CUDA_ARCHITECTURES

Gpus without_gpu(cudaError_t status) {
  Gpus none;
  none.missing = status == cudaSuccess ? std::string("CUDA finds no GPU")
                                       : fmt::format("CUDA says '{}'", cudaGetErrorString(status));
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && (status == cudaSuccess || status == cudaErrorNoDevice)) {
    none.missing += fmt::format(" with CUDA_VISIBLE_DEVICES = '{}'", visible);
    none.way_out = "unset it, or let it name GPUs of the list of nvidia-smi";
  } else {
    none.way_out = fmt::format(
        "install NVIDIA's driver for CUDA {}, or start the container with its GPUs (--gpus all, or --nv), until "
        "nvidia-smi lists one",
        CUDART_VERSION / 1000);
  }
  return none;
}

// Loads LibTorch's CUDA part, which registers itself. The program is not linked with it, since loading it would slow
// the start of runs on the CPU. Returns what failed; empty: nothing.
std::string load_torch_cuda() {
  void* loaded = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  std::array<char, PATH_MAX> folder{};
  if (loaded == nullptr || dlinfo(loaded, RTLD_DI_ORIGIN, folder.data()) != 0)
    return fmt::format("the folder of libtorch_cpu.so is not known: {}", dlerror());
  if (dlopen(fmt::format("{}/{}", folder.data(), library_name).c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return dlerror();
  return {};
}

void require_success(cudaError_t status, const char* call) {
  base::require(status == cudaSuccess, "{} failed: {}; does nvidia-smi show the GPU, and is it free?", call,
                cudaGetErrorString(status));
}

cudaDeviceProp properties_of(int index) {
  cudaDeviceProp properties{};
  require_success(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties;
}

// Returns a hash of the GPU's UUID. Parts of one GPU (MIG) have their own UUIDs.
std::int64_t identity_of(const cudaDeviceProp& properties) {
  return static_cast<std::int64_t>(base::xxh3({properties.uuid.bytes, sizeof properties.uuid.bytes}));
}

}  // namespace

Gpus find_gpus() {
  int count = 0;
  const auto status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());  // clears the error, which would otherwise be reported later
    return without_gpu(status);
  }
  if (const auto failure = load_torch_cuda(); !failure.empty())
    return {.missing = fmt::format("{} cannot be loaded ({})", library_name, failure),
            .way_out = "run scripts/setup.sh --cuda",
            .identities = {}};
  Gpus gpus{.count = count, .missing = {}, .way_out = {}, .identities = {}};
  for (int index = 0; index < count; ++index) gpus.identities.push_back(identity_of(properties_of(index)));
  return gpus;
}

void use_gpu(std::int64_t index) {
  const auto properties = properties_of(static_cast<int>(index));
  base::require(
      properties.major >= oldest_major,
      "GPU {} ({}) has compute capability {}.{}, and {}.0 is needed for bfloat16; use --train.accelerator.device "
      "cpu",
      index, properties.name, properties.major, properties.minor, oldest_major);
  require_success(cudaSetDevice(static_cast<int>(index)), "cudaSetDevice");
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
}

std::string describe_gpu(std::int64_t index) {
  const auto properties = properties_of(static_cast<int>(index));
  return fmt::format("{}, {}", properties.name, base::format_bytes(properties.totalGlobalMem));
}

}  // namespace tessera::device

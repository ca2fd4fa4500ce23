#include "device/gpu.h"

#include <ATen/Context.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <climits>
#include <cstdlib>

#include "base/error.h"
#include "base/quantity.h"

namespace tessera::device {
namespace {

constexpr const char* library_name = "libtorch_cuda.so";

// Why there is no GPU for this process.
std::string describe_absence(cudaError_t status) {
  const auto said =
      status == cudaSuccess ? std::string("CUDA finds none") : fmt::format("CUDA says: {}", cudaGetErrorString(status));
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr)
    return fmt::format("{}, with CUDA_VISIBLE_DEVICES = '{}'; unset it, or let it name a GPU of nvidia-smi's list",
                       said, visible);
  return fmt::format(
      "{}; install an NVIDIA driver for CUDA {}, or start the container with its GPUs (--gpus all, --nv); nvidia-smi "
      "must list one",
      said, CUDART_VERSION / 1000);
}

// LibTorch's CUDA part registers itself when it is loaded. This program is not linked with it: that would cost a run on
// the CPU its start. Returns what failed, or nothing.
std::string load_torch_cuda() {
  void* loaded = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
  std::array<char, PATH_MAX> folder{};
  if (loaded == nullptr || dlinfo(loaded, RTLD_DI_ORIGIN, folder.data()) != 0)
    return fmt::format("where libtorch_cpu.so lies is unknown: {}", dlerror());
  if (dlopen(fmt::format("{}/{}", folder.data(), library_name).c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    return dlerror();
  return {};
}

void require_success(cudaError_t status, const char* call) {
  base::require(status == cudaSuccess, "{} failed: {}; does nvidia-smi show the GPU, and is it free?", call,
                cudaGetErrorString(status));
}

}  // namespace

Gpus find_gpus() {
  int count = 0;
  const auto status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    static_cast<void>(cudaGetLastError());  // a failed call stays the last error until it is asked for
    return {.missing = describe_absence(status)};
  }
  if (const auto failure = load_torch_cuda(); !failure.empty())
    return {.missing = fmt::format("{} cannot be loaded ({}); run scripts/setup.sh --cuda", library_name, failure)};
  return {.count = count, .missing = {}};
}

void use_gpu(std::int64_t index) {
  require_success(cudaSetDevice(static_cast<int>(index)), "cudaSetDevice");
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
}

std::string describe_gpu(std::int64_t index) {
  cudaDeviceProp properties{};
  require_success(cudaGetDeviceProperties(&properties, static_cast<int>(index)), "cudaGetDeviceProperties");
  return fmt::format("{}, {}", properties.name, base::format_bytes(properties.totalGlobalMem));
}

}  // namespace tessera::device

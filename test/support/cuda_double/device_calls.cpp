// CUDA Runtime API, "Device Management" and "Error Handling".
#include <algorithm>
#include <cstring>

#include "support/cuda_double/faults.h"
#include "support/cuda_double/runtime.h"

using namespace tessera::test;
using namespace tessera::test::cuda_double;

namespace {

// All errors that the double returns, and a few more.
struct Text {
  cudaError_t error;
  const char *name, *words;
};
constexpr Text texts[] = {{cudaSuccess, "cudaSuccess", "no error"},
                          {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
                          {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
                          {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
                          {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
                          {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
                          {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
                          {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"}};

const Text* text_of(cudaError_t error) {
  const auto* found = std::find_if(std::begin(texts), std::end(texts), [&](const Text& t) { return t.error == error; });
  return found == std::end(texts) ? nullptr : found;
}

bool is_device(int device) { return device >= 0 && device < runtime().device_count; }

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = runtime().device_count;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return remember(cudaErrorInvalidDevice);
  set_current_device(device);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return remember(cudaErrorInvalidDevice);
  *properties = {};
  std::strncpy(properties->name, "host double", sizeof(properties->name) - 1);
  properties->uuid.bytes[0] = static_cast<char>(device);
  const std::lock_guard lock(runtime().mutex);
  properties->totalGlobalMem = runtime().memory.device_bytes;
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 1;
  properties->warpSize = 32;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return remember(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = 9; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; return cudaSuccess;
    case cudaDevAttrMultiProcessorCount: *value = 1; return cudaSuccess;
    case cudaDevAttrWarpSize: *value = 32; return cudaSuccess;
    default: return remember(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDeviceSynchronize() {
  report_fault("cudaDeviceSynchronize: a step waits for events, never for the whole device");
  runtime().wait_for_device(current_device());
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  const auto* text = text_of(error);
  return text == nullptr ? "unrecognized error code" : text->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* text = text_of(error);
  return text == nullptr ? "unrecognized error code" : text->words;
}

}  // extern "C"

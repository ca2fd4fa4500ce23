#include "device/tensor_device.h"

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace tessera::device {

c10::Device tensor_device(Place place) {
  if (place == Place::cpu) return c10::Device(c10::DeviceType::CPU);
  int index = 0;
  const auto status = cudaGetDevice(&index);
  base::expect(status == cudaSuccess, "cudaGetDevice: {}", cudaGetErrorString(status));
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index));
}

}  // namespace tessera::device

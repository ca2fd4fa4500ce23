#include "device/tensor_device.h"

#include "base/error.h"

namespace tessera::device {

c10::Device tensor_device(Place place) {
  base::expect(place == Place::cpu, "a tensor on the GPU of a program without CUDA");
  return c10::Device(c10::DeviceType::CPU);
}

}  // namespace tessera::device

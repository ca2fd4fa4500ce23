#include "device/tensor_device.h"

#include "support/torch_double/torch_double.h"

c10::Device tessera::device::tensor_device(Place place) {
  return place == Place::cpu ? c10::Device(c10::kCPU) : test::torch_double::device();
}

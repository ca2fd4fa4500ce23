// Converts a Place to LibTorch's device.
#pragma once

#include <c10/core/Device.h>

#include "device/place.h"

namespace tessera::device {

// Precondition for cuda: use_gpu() was called. This is a file of its own so that tests can link another device instead.
[[nodiscard]] c10::Device tensor_device(Place place);

}  // namespace tessera::device

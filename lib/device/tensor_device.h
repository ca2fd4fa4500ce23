// LibTorch's name for a place.
#pragma once

#include <c10/core/Device.h>

#include "device/place.h"

namespace tessera::device {

// Precondition for cuda: use_gpu() was called. (A file of its own, so that tests can put another device in its place.)
[[nodiscard]] c10::Device tensor_device(Place place);

}  // namespace tessera::device

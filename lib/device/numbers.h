// The floating types that a run computes with, and the place where it computes.
#pragma once

#include <c10/core/ScalarType.h>

#include "device/place.h"

namespace tessera::device {

struct Numbers {
  c10::ScalarType master = c10::ScalarType::Float;   // master shards, gradients, optimizer state
  c10::ScalarType compute = c10::ScalarType::Float;  // gathered parameters and activations
  // Router, norm statistics, rotary tables, loss: float32, or float64 in the reference mode.
  c10::ScalarType wide = c10::ScalarType::Float;
  Place place = Place::cpu;
};

}  // namespace tessera::device

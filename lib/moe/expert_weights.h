// The weights of the local experts.
#pragma once

#include <vector>

#include "device/weight.h"

namespace tessera::moe {

struct ExpertWeights {
  std::vector<device::Weight*> into;       // [experts, I, hidden], one for each input of the function
  std::vector<device::Weight*> into_bias;  // [experts, I], one for each input; or none
  device::Weight* out = nullptr;           // [experts, hidden, I]
  device::Weight* out_bias = nullptr;      // [experts, hidden], or null
};

}  // namespace tessera::moe

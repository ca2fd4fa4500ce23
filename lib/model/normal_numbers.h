// A standard normal sequence whose elements can be drawn in any order.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace tessera::model {

struct NormalPair {
  double even = 0;
  double odd = 0;
};

// Elements 2 * pair and 2 * pair + 1 of the sequence of `random`: Box and Muller's transform (1958) of one Philox
// block. Uses +, -, *, / and square root only, so that the bits do not depend on a mathematics library.
[[nodiscard]] NormalPair normal_pair(const base::Philox& random, std::uint64_t pair) noexcept;

}  // namespace tessera::model

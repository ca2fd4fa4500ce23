// Compares numbers within a tolerance that the test states.
#pragma once

#include "support/catch.h"

namespace tessera::test {

#if __has_include(<catch2/catch_all.hpp>)
using CatchNumber = Catch::Approx;
#else
using CatchNumber = Catch::Detail::Approx;
#endif

// Returns a number to compare with `==`, within .margin(absolute) or .epsilon(relative to it). Catch2's own Approx,
// which no test may use, adds 1.2e-5 of the number to every margin that a test states: within a margin of 1e-13 the
// seventh digit could be wrong.
[[nodiscard]] inline CatchNumber about(double number) { return CatchNumber(number).epsilon(0); }

}  // namespace tessera::test

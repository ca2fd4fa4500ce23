// Checks trainings in many layouts, each against the training of one rank.
#pragma once

#include <vector>

#include "layout_case.h"

namespace tessera::test {

// Trains ten steps of each case in float64. Fails the test if a loss, a norm or a gradient differs by more than 1e-10
// from the one-rank run's, if a gradient of that run is zero, if the ranks sent other bytes than the arithmetic says,
// or if an option did not change the program. Collective over the world.
void check_cases(const std::vector<LayoutCase>& cases);

// The same in float32, with a bound of 1e-5 for losses and norms, for the gradients of the first step, and with SGD for
// those of each step.
void check_cases_in_float32(const std::vector<LayoutCase>& cases);

}  // namespace tessera::test

// Trainings in many layouts, each compared with one rank's.
#pragma once

#include <vector>

#include "layout_case.h"

namespace tessera::test {

// Collective over the world. Ten steps of each case in float64: fails the test if a loss, a norm or a gradient is not
// within 1e-10 of the one-rank run's, if a gradient of that run is zero, if the ranks sent other bytes than the
// arithmetic says, or if an option did not change the program.
void check_cases(const std::vector<LayoutCase>& cases);

// The same in float32, where losses and norms are to be within 1e-5, and so are the gradients of the first step, and of
// each with SGD.
void check_cases_in_float32(const std::vector<LayoutCase>& cases);

}  // namespace tessera::test

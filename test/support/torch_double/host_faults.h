// Says what happened when host code touches memory of the double.
#pragma once

namespace tessera::test::torch_double {

// From now on such a fault prints one line before whoever handled it so far (a test's main, or the default: the end of
// the program) sees it. Called with every allocation, since a test's main puts its own in front for each test.
void name_host_faults();

}  // namespace tessera::test::torch_double

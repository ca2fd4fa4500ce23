// Prints an explanation when host code touches memory of the double.
#pragma once

namespace tessera::test::torch_double {

// From now on such a fault prints one line before the previous handler sees it (that of a test's main, or the default:
// the end of the program). Called with every allocation, since a test's main installs its own handler for each test.
void name_host_faults();

}  // namespace tessera::test::torch_double

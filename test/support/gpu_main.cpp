// The main function of the test programs labelled gpu: they run on the first GPU.
#include <cstdio>
#include <cstdlib>

#include "device/gpu.h"
#include "support/session.h"

int main(int argc, char** argv) {
  constexpr int skipped = 77;  // CTest's SKIP_RETURN_CODE in third_party/tests.cmake
  if (const auto gpus = tessera::device::find_gpus(); gpus.count == 0) {
    std::printf("skipped: %s; %s\n", gpus.missing.c_str(), gpus.way_out.c_str());
    return skipped;
  }
  tessera::device::use_gpu(0);
  // Catch2 returns the number of failures, which may be that one.
  return tessera::test::run_tests(argc, argv) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

// If this failed, tests on the double could pass although it found faults.
#include "gpu_test.h"
#include "support/catch.h"
#include "support/command.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("a process with a fault says it and fails; one without does not") {
  const auto ended = [](const char* what, const char* message) {
    const auto finished = run_command({FAULTY, what});
    INFO(finished.err);
    CHECK(finished.code == fault_exit_code);
    CHECK_THAT(finished.err, ContainsSubstring(message) && ContainsSubstring("CUDA double: 1 faults; exit code 86"));
  };
  ended("read-early", "CUDA double: fault: read before event: kernel 'read' on the default stream");
  ended("group", "CUDA double: fault: missing group end: the end of the thread");
  ended("leak", "CUDA double: fault: rank 0 of communicator 1 (size 1) was neither destroyed nor aborted");
  const auto right = run_command({FAULTY, "none"});
  CHECK(right.code == 0);
  CHECK(right.err.empty());
}

TEST_CASE("faults that are expected are no failure, others are kept") {
  CHECK(blamed([] { cudaDeviceSynchronize(); }) ==
        "cudaDeviceSynchronize: a step waits for events, never for the whole device");
  CHECK(faults().empty());
}

}  // namespace
}  // namespace tessera::test

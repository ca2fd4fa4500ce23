// Runs the tests of a program; called by its main function.
#pragma once

namespace tessera::test {

// Runs the tests that the command line names (Catch2's options) and returns the exit code. "No test ran" is a failure.
// A test that takes longer than test_time_limit() ends the process with its name.
[[nodiscard]] int run_tests(int argc, char** argv);

}  // namespace tessera::test

// Behaviours of a test program, which CMakeLists.txt starts one by one. If this failed, a test program could pass
// without running a test, or hang without naming the test.
#include "support/catch.h"

#include <chrono>
#include <thread>

TEST_CASE("a test that passes", "[.]") { CHECK(1 + 1 == 2); }

TEST_CASE("a test that hangs", "[.]") { std::this_thread::sleep_for(std::chrono::minutes(10)); }

// Tests that fail on purpose on one of several ranks, started one by one by failure_test.cpp. If these passed, a
// failure that only one rank sees would be lost.
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

TEST_CASE("a check of its own that fails on rank 1", "[.]") { CHECK(world().rank() != 1); }

TEST_CASE("a check of all ranks that fails on rank 1", "[.]") { CHECK_ON_ALL(world().rank() != 1); }

}  // namespace
}  // namespace tessera::test

// Tests that fail on purpose on one of several ranks; failure_test.cpp starts them one by one. If these passed, a
// failure on one rank only would go unseen.
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

TEST_CASE("a check of its own that fails on rank 1", "[.]") { CHECK(world().rank() != 1); }

TEST_CASE("a check of all ranks that fails on rank 1", "[.]") { CHECK_ON_ALL(world().rank() != 1); }

}  // namespace
}  // namespace tessera::test

// As invariance_test.cpp, for more layouts than a run of all tests has time for: if this failed, a run in one of them
// would differ from the same run on one rank.
#include "layout_case.h"
#include "layout_check.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

TEST_CASE("any three options together (of more than four ranks any two) give the numbers of one rank") {
  check_cases(covering_cases(world().size(), world().size() <= 4 ? 3 : 2));
}

}  // namespace
}  // namespace tessera::test

// If this failed, a run would depend on how many ranks share it: the promise of the project that every layout gives the
// numbers of one rank would be broken.
#include "layout_case.h"
#include "layout_check.h"
#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

TEST_CASE("any two options together give the losses, norms and gradients of one rank") {
  const auto cases = covering_cases(world().size(), 2);
  CHECK(cases.size() >= 20);  // three numbers of ranks: 60 runs and more
  check_cases(cases);
}

TEST_CASE("in float32 layouts agree as far as its rounding lets them") {
  auto cases = covering_cases(world().size(), 2);
  cases.resize(8);
  check_cases_in_float32(cases);
}

}  // namespace
}  // namespace tessera::test

// If this failed, errors would lose their message or exit code, or only the first of several problems would be shown.
#include "base/error.h"
#include "support/catch.h"
#include "support/error_of.h"

using namespace tessera;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("require formats its message only when the condition fails") {
  base::require(true, "never {}", 1);
  CHECK(test::error_of([] { base::require(1 > 2, "ep = {} does not divide {} ranks", 3, 8); }) ==
        "ep = 3 does not divide 8 ranks");
}

TEST_CASE("fail throws bad input") {
  CHECK_THROWS_AS(base::fail("x"), base::Error);
  CHECK(test::error_of([] { base::fail("value {}", "a"); }) == "value a");
  CHECK(static_cast<int>(base::ExitCode::bad_input) == 2);
  CHECK(static_cast<int>(base::ExitCode::non_finite) == 3);
}

TEST_CASE("expect names the place of the call") {
  base::expect(true, "fine");
  const int line = __LINE__ + 2;
  try {
    base::expect(false, "size {}", 7);
    FAIL("expect did not throw");
  } catch (const std::logic_error& error) {
    CHECK_THAT(error.what(), ContainsSubstring("size 7"));
    CHECK_THAT(error.what(), ContainsSubstring("error_test.cpp:" + std::to_string(line)));
  }
}

TEST_CASE("problems are thrown together") {
  base::Problems problems;
  problems.throw_if_any("settings.json");
  CHECK(problems.empty());
  problems.add("a {}");  // no arguments: taken as it is
  CHECK(test::error_of([&] { problems.throw_if_any("settings.json"); }) == "settings.json: a {}");
  problems.add("b = {}", 2);
  CHECK(problems.list().size() == 2);
  CHECK(test::error_of([&] { problems.throw_if_any("settings.json"); }) ==
        "2 problems in settings.json:\n  a {}\n  b = 2");
}

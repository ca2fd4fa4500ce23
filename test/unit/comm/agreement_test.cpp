// If this failed, an error of a single rank would lose its message or its code.
#include "comm/agreement.h"

#include <c10/util/Exception.h>

#include "support/catch.h"

namespace tessera::comm {
namespace {

TEST_CASE("one rank agrees with itself: its failure keeps code and words") {
  const auto solo = solo_communicator();
  CHECK_NOTHROW(agree(*solo, std::nullopt));
  CHECK_NOTHROW(agree_on(*solo, [] {}));
  try {
    agree_on(*solo, [] { throw base::Error(base::ExitCode::non_finite, "loss is nan"); });
    FAIL("no error");
  } catch (const AgreedError& error) {
    CHECK(error.code() == base::ExitCode::non_finite);
    CHECK(std::string(error.what()) == "loss is nan");
  }
}

TEST_CASE("an exception that is no Error of ours is a failed rank") {
  const auto failure = describe_failure(std::make_exception_ptr(std::runtime_error("no memory")));
  CHECK(failure.code == base::ExitCode::rank_failed);
  CHECK(failure.message == "no memory");
  CHECK(describe_failure(std::make_exception_ptr(7)).message == "an exception of unknown type");
}

TEST_CASE("an error of LibTorch is told without its stack trace, whichever way ranks agree on it") {
  const auto throws = [] { TORCH_CHECK(false, "no such shape"); };
  try {
    throws();
  } catch (const std::exception& error) {
    REQUIRE(std::string(error.what()).find("\n") != std::string::npos);  // the trace that is to go
    const auto failure = describe_failure(std::current_exception());
    CHECK(failure.code == base::ExitCode::rank_failed);
    CHECK(failure.message == "no such shape");
  }
  CHECK_THROWS_WITH(agree_on(*solo_communicator(), throws), "no such shape");
}

}  // namespace
}  // namespace tessera::comm

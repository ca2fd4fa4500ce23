// If this failed, ranks would go on where one of them has failed, or not know why they end.
#include "comm/agreement.h"

#include <optional>
#include <string>

#include "support/catch.h"
#include "support/ranks.h"

namespace tessera::test {
namespace {

std::string agreed_error(const std::optional<comm::Failure>& failure, base::ExitCode expected_code) {
  try {
    comm::agree(*world().communicator(), failure);
  } catch (const comm::AgreedError& error) {
    return error.code() == expected_code ? error.what() : "another code";
  }
  return "no error";
}

TEST_CASE("the failure of one rank is every rank's, with its code and words") {
  const auto n = world().size();
  CHECK_ON_ALL(agreed_error(std::nullopt, base::ExitCode::done) == "no error");
  for (std::int64_t first = 0; first < n; ++first) {
    // The first rank that failed speaks for those after it.
    std::optional<comm::Failure> failure;
    const auto words = [](std::int64_t rank) { return "file " + std::to_string(rank) + " is missing"; };
    if (world().rank() >= first) failure = comm::Failure{base::ExitCode::non_finite, words(world().rank())};
    const auto expected = n == 1 ? words(0) : "rank " + std::to_string(first) + ": " + words(first);
    CHECK_ON_ALL(agreed_error(failure, base::ExitCode::non_finite) == expected);
  }
}

}  // namespace
}  // namespace tessera::test

// If this failed, ranks would continue although one of them has failed, or end without knowing why.
#include "comm/agreement.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/same_on_all.h"
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

std::string refusal(const std::vector<comm::Fact>& facts) {
  try {
    comm::require_same_on_all(*world().communicator(), facts);
  } catch (const comm::AgreedError& error) {
    return error.what();
  }
  return "all the same";
}

TEST_CASE("what differs on one rank is named with both values on all of them, whatever number of facts each has") {
  const auto n = world().size();
  if (n == 1) return;
  const std::vector<comm::Fact> same{{"a", "1"}, {"b", ""}, {"c", "text"}};
  CHECK_ON_ALL(refusal(same) == "all the same");
  for (std::int64_t other = 0; other < n; ++other) {
    const bool differs = world().rank() == other;
    const auto first = std::to_string(other == 0 ? 1 : other);  // rank 0 is what others are compared with
    const auto about = [&](const std::string& there, const std::string& on_rank_0) {
      const auto& [a, b] = other == 0 ? std::pair{on_rank_0, there} : std::pair{there, on_rank_0};
      return "rank " + first +
             " was started with other settings, another model or plan, or other data than rank 0: c is " + a +
             " there, and " + b +
             " on rank 0; start all ranks by one command, with files that are the same on "
             "every host";
    };
    auto value = same, fewer = same, more = same;
    if (differs) {
      value.back().value = "text ";
      fewer.pop_back();
    } else {
      more.pop_back();
    }
    CHECK_ON_ALL(refusal(value) == about("text ", "text"));
    CHECK_ON_ALL(refusal(fewer) == about("absent", "text"));
    CHECK_ON_ALL(refusal(more) == about("text", "absent"));
  }
}

}  // namespace
}  // namespace tessera::test

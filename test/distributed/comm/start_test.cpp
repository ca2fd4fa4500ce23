// If this failed, a rank that runs out of memory at its start would leave the others waiting without a message.
#include <iostream>

#include "base/clock.h"
#include "support/catch.h"
#include "support/command.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

// The time that an end may take on a busy machine.
constexpr double generous = 60;

struct Ended {
  Finished finished;
  double seconds;
};

// Starts two ranks. On rank 1 the allocation of that number fails, and with "for_good" all later ones too.
Ended start(int allocation, const std::string& how) {
  const double begin = base::seconds_now();
  auto finished = run_command({MPIRUN, "-n", "2", STARTING_RANKS, std::to_string(allocation), how});
  return {std::move(finished), base::seconds_now() - begin};
}

TEST_CASE("a rank that runs out of memory at any step of its start says so once, and ends the job at once") {
  int allocation = 1;
  for (constexpr int most = 100; allocation <= most; ++allocation) {
    const auto [ended, seconds] = start(allocation, "once");
    if (count_of("all ranks are in the world", ended.err) == 1) break;  // it has fewer allocations
    INFO("allocation " << allocation << ": " << ended.err);
    CHECK(ended.code == 4);
    CHECK(count_of("this process is out of memory", ended.err) == 1);
    CHECK(seconds < generous);
  }
  std::cout << "the start of a rank has " << allocation - 1 << " allocations\n";
  CHECK(allocation > 10);
  CHECK(allocation <= 100);
}

TEST_CASE("a rank that has no memory at all any more still ends the job, and says so") {
  for (const int allocation : {2, 5, 8}) {
    const auto [ended, seconds] = start(allocation, "for_good");
    INFO("allocation " << allocation << ": " << ended.err);
    CHECK(ended.code != 0);
    CHECK_THAT(ended.err, ContainsSubstring("out of memory") || ContainsSubstring("bad_alloc"));
    CHECK(seconds < generous);
  }
}

}  // namespace
}  // namespace tessera::test

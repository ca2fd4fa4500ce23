// If this failed, the other ranks would wait for a rank that has failed, or no message would say why the job ended.
#include <iostream>

#include "base/clock.h"
#include "support/catch.h"
#include "support/command.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Ended {
  Finished finished;
  double seconds;
};

// `ranks` ranks of failing_ranks; rank 1 is the one that fails.
Ended play(const std::string& act, int ranks = 3) {
  const double begin = base::seconds_now();
  auto finished = run_command({MPIRUN, "-n", std::to_string(ranks), FAILING_RANKS, act, "1"});
  const double seconds = base::seconds_now() - begin;
  std::cout << "act '" << act << "' ended with " << finished.code << " after " << seconds << " s\n";
  UNSCOPED_INFO(finished.err);
  return {std::move(finished), seconds};
}

// The time that an end may take on a busy machine; a limit that ran out would take 120 s or more.
constexpr double generous = 40;

TEST_CASE("a rank that throws ends the job with its code, and says once why") {
  const auto [ended, seconds] = play("throw");
  CHECK(ended.code == 3);
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 on "));
  CHECK(count_of("the loss is not finite", ended.err) == 1);
  CHECK(seconds < generous);
}

TEST_CASE("of ranks that throw at the same time one speaks") {
  const auto [ended, seconds] = play("throw together");
  CHECK(ended.code == 4);
  CHECK(count_of("the same on every rank", ended.err) == 1);
  CHECK(seconds < generous);
}

TEST_CASE("an exception that passes the world ends the job") {
  const auto [ended, seconds] = play("escape");
  CHECK(ended.code == 4);
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 on ") && ContainsSubstring("an exception ends this rank"));
  CHECK(seconds < generous);
}

TEST_CASE("a rank that is killed ends the job") {
  const auto [ended, seconds] = play("be killed");
  CHECK(ended.code == 128 + 9);
  CHECK(seconds < generous);
}

TEST_CASE("a rank that never arrives is named, with the operation, its group, bytes and age, and the job ends") {
  const auto [ended, seconds] = play("stay away");
  CHECK(ended.code == 4);
  CHECK_THAT(ended.err,
             ContainsSubstring("all_reduce of") && ContainsSubstring("KiB among ranks 0-2 has not ended after"));
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 has not arrived"));
  CHECK_THAT(ended.err, ContainsSubstring("in no collective for") && ContainsSubstring("after barrier of"));
  CHECK(count_of("has not arrived", ended.err) == 1);
  CHECK(seconds < generous);
}

TEST_CASE(
    "a rank at work in a file is waited for for longer than timeout_s, also by those that wait for who waits for it") {
  const auto [ended, seconds] = play("stay away at a disk");
  CHECK(ended.code == 0);
  CHECK(count_of("] error ", ended.err) == 0);
  CHECK(seconds > 7);
}

TEST_CASE("a rank that never arrives is named although another one, which has arrived, is at work in a file") {
  const auto [ended, seconds] = play("stay away beside one at a disk");
  CHECK(ended.code == 4);
  CHECK_THAT(ended.err, ContainsSubstring("; rank 1 has not arrived"));
  CHECK(seconds < generous);
}

TEST_CASE("ranks that wait for each other are found, whatever signs of life they gave before") {
  const auto [ended, seconds] = play("stay away crosswise", 2);
  CHECK(ended.code == 4);
  CHECK_THAT(ended.err, ContainsSubstring("among ranks 0, 1 has not ended after 3."));
  CHECK(seconds < generous);
}

TEST_CASE("the message about a stuck operation names the instruction, the group, and what the missing rank does") {
  const auto [ended, seconds] = play("stay away from a small gather", 2);
  CHECK(ended.code == 4);
  // 500 floats are sent to the other rank, and 500 received: 4000 bytes.
  CHECK_THAT(ended.err, ContainsSubstring("Wait Gather layers.3.experts: gather_blocks of 3.91 KiB for Gather "
                                          "layers.3.experts in group fsdp (ranks 0, 1) has not ended after 3."));
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 has not arrived"));
  CHECK_THAT(ended.err, ContainsSubstring(", at Wait Gather layers.3.experts: in gather_blocks of"));
  CHECK_THAT(ended.err, ContainsSubstring(", at Forward layers.2: in no collective yet"));
  CHECK(seconds < generous);
}

TEST_CASE("the rank that is missing in a large gather is named") {
  const auto [ended, seconds] = play("stay away from a large gather");
  CHECK(ended.code == 4);
  // 2 MiB to and from each of two ranks.
  CHECK_THAT(ended.err, ContainsSubstring("gather_blocks of 8.00 MiB for Gather layers.3.experts in group fsdp (ranks "
                                          "0-2) has not ended after 3."));
  CHECK_THAT(ended.err, ContainsSubstring("rank 1 has not arrived"));
  CHECK(seconds < generous);
}

TEST_CASE("a failure that the ranks agree on is printed once, and every rank leaves with its code") {
  const auto [ended, seconds] = play("agree to fail");
  CHECK(ended.code == 2);
  CHECK(count_of("rank 1: shard 3 cannot be read", ended.err) == 1);
  CHECK_THAT(ended.err, !ContainsSubstring("MPI_ABORT"));
  CHECK(seconds < generous);
}

TEST_CASE("a test that fails on one rank fails the program, and the line names the rank") {
  const auto ended = run_command({MPIRUN, "-n", "3", SUITE, "a check of its own that fails on rank 1"});
  CHECK(ended.code != 0);
  CHECK_THAT(ended.out, ContainsSubstring("[rank 1]") && ContainsSubstring("FAILED"));
  CHECK(count_of("FAILED", ended.out) == 1);
}

TEST_CASE("a check of all ranks fails on each, naming those where the condition does not hold") {
  const auto ended = run_command({MPIRUN, "-n", "3", SUITE, "a check of all ranks that fails on rank 1"});
  CHECK(ended.code != 0);
  CHECK(count_of("FAILED", ended.out) == 3);
  CHECK(count_of("\"1\" == \"none\"", ended.out) == 3);
}

}  // namespace
}  // namespace tessera::test

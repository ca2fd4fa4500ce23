// If this failed, a rank whose GPU waits for a missing rank would wait for ever, or no message would name the missing
// rank.
#include <iostream>

#include "base/clock.h"
#include "support/catch.h"
#include "support/command.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

// The time that an end may take on a busy machine.
constexpr double generous = 60;

// Two ranks of failing_gpus; rank 1 is the one that fails.
Finished play(const std::string& act) {
  const double begin = base::seconds_now();
  auto finished = run_command({MPIRUN, "-n", "2", FAILING_GPUS, act, "1"});
  const double seconds = base::seconds_now() - begin;
  std::cout << "act '" << act << "' ended with " << finished.code << " after " << seconds << " s\n";
  CHECK(seconds < generous);
  UNSCOPED_INFO(finished.err);
  return finished;
}

TEST_CASE("an operation that does not end on the GPU is named, with its group, bytes and age, and the job ends") {
  const auto ended = play("stay away from a gather");
  CHECK(ended.code == 4);
  // 500 floats are sent to the other rank, and 500 received: 4000 bytes.
  CHECK_THAT(ended.err,
             ContainsSubstring("Wait Gather layers.3.experts: gather_blocks of 3.91 KiB for Gather layers.3.experts in "
                               "group fsdp (ranks 0, 1) has not ended on the GPU after 3."));
  CHECK_THAT(ended.err, ContainsSubstring(", at Forward layers.2: "));
  CHECK(count_of("has not ended on the GPU", ended.err) == 1);
}

TEST_CASE("ranks of which one does not come to make NCCL's communicator say so, and the job ends") {
  const auto ended = play("never come");
  CHECK(ended.code == 4);
  CHECK_THAT(ended.err, ContainsSubstring("NCCL has not finished ncclCommInitRankConfig after 3."));
}

TEST_CASE("a rank that throws ends the job, though its GPU waits for the others") {
  const auto ended = play("throw in a gather");
  CHECK(ended.code == 3);
  CHECK(count_of("the loss is not finite", ended.err) == 1);
}

}  // namespace
}  // namespace tessera::test

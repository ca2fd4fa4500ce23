#include "resumed_run.h"

#include "support/catch.h"
#include "support/finished_command.h"
#include "support/ranked_command.h"

namespace tessera::test {

Ran train(const SmallRun& run, const Words& more, int ranks) {
  if (ranks == 1) {
    const auto finished = run_tessera_train(run.words(more));
    return {finished.exit_code, finished.err};
  }
  const auto finished = run_ranks(ranks, run.words(more));
  return {finished.code, finished.err};
}

Ran train_to_the_end(const SmallRun& run, const Words& more, int ranks) {
  auto ran = train(run, more, ranks);
  INFO(ran.err);
  REQUIRE(ran.code == 0);
  return ran;
}

Words from(const std::filesystem::path& checkpoint) { return {"--train.checkpoint.load_path", checkpoint}; }
Words into(const std::filesystem::path& output) { return {"--train.checkpoint.output_dir", output}; }

}  // namespace tessera::test

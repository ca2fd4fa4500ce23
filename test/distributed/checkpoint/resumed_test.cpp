// If this failed, a resumed run of several ranks would differ from the uninterrupted one, because a rank starts from
// other bits.
#include "base/file.h"
#include "base/log.h"
#include "layouts.h"
#include "shared_folder.h"
#include "support/catch.h"
#include "support/ranks.h"
#include "support/run_output.h"
#include "train/training_run.h"

namespace tessera::test {
namespace {

void run_to_the_end(const config::Settings& settings) {
  const train::StopSignals signals;
  CHECK_ON_ALL(train::run(settings, world(), signals) == base::ExitCode::done);
}

// The compared results: rank 0's lines, and the bytes that each rank wrote into the last checkpoint.
bool same_ends(const std::filesystem::path& a, const std::filesystem::path& b, std::int64_t step) {
  const auto shard = "shard_0000" + std::to_string(world().rank()) + ".safetensors";
  const bool writes = std::filesystem::exists(checkpoint_of(a, step) / shard);
  return measured(a) == measured(b) && writes == std::filesystem::exists(checkpoint_of(b, step) / shard) &&
         (!writes ||
          base::read_file(checkpoint_of(a, step) / shard) == base::read_file(checkpoint_of(b, step) / shard));
}

TEST_CASE("in every layout of four ranks a run that goes on has the bits of the uninterrupted one on each rank") {
  const SmallRun run;
  const SharedFolder folder;
  if (world().rank() == 0)
    for (const char* file : {"config.json", "train.jsonl", "eval.jsonl"})
      std::filesystem::copy_file(run.folder() / file, folder.path() / file);
  base::set_log(base::LogLevel::error, true);
  std::size_t number = 0;
  for (const auto& layout : chosen_layouts()) {
    if (layout.ranks != world().size()) continue;
    INFO(layout.describe());
    const auto whole = folder.path() / std::to_string(number),
               killed = folder.path() / (std::to_string(number) + "_killed");
    const Words common{"--train.max_steps",
                       "4",
                       "--train.checkpoint.save_steps",
                       "2",
                       "--train.checkpoint.load_path",
                       "auto",
                       "--train.checkpoint.save_async",
                       number % 2 == 0 ? "true" : "false",
                       "--train.micro_batch_size",
                       "1",
                       "--data.eval_path",
                       folder.path() / "eval.jsonl",
                       "--train.eval_steps",
                       "1",
                       "--train.moe_load_balance_monitor_interval",
                       "1",
                       "--model.config_path",
                       folder.path() / "config.json",
                       "--data.train_path",
                       folder.path() / "train.jsonl",
                       "--train.log.level",
                       "error"};
    const auto into = [&](const std::filesystem::path& output) {
      return run.settings(joined(joined(common, layout.words), {"--train.checkpoint.output_dir", output}));
    };
    run_to_the_end(into(whole));
    if (world().rank() == 0) copy_as_killed(whole, 2, killed);
    world().communicator()->barrier();
    run_to_the_end(into(killed));
    CHECK_ON_ALL(same_ends(whole, killed, 4));
    ++number;
  }
  CHECK(number > 10);
}

}  // namespace
}  // namespace tessera::test

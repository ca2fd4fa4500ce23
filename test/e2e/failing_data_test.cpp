// If this failed, data that cannot be read in the middle of a run would destroy the training so far, or end the run
// without naming the file.
#include <filesystem>

#include "resumed_run.h"
#include "support/catch.h"
#include "support/ranked_command.h"
#include "unit/data/corpus_files.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

// Documents of seven legal ids, of which one, if it is asked for, has an id that the vocabulary does not have.
Documents documents(std::int64_t count, std::int64_t bad = -1) {
  Documents all;
  for (std::int64_t d = 0; d < count; ++d) {
    all.emplace_back();
    for (std::int64_t i = 0; i < 7; ++i) all.back().push_back((d * d + 3 * i) % 31);
  }
  if (bad >= 0) all[static_cast<std::size_t>(bad)][3] = 31;
  return all;
}

// Checks for code 2, one message by the rank that met the faulty id, and the checkpoint of the step before.
std::int64_t saved_before_the_end(const Ran& ended, const SmallRun& run, const std::string& file) {
  INFO(ended.err);
  CHECK(ended.code == 2);
  CHECK(count_of("] error ", ended.err) == 1);
  const auto steps = static_cast<std::int64_t>(column(read_metrics(run.output() / "metrics.jsonl"), "loss").size());
  CHECK_THAT(
      ended.err,
      ContainsSubstring(file + ".bin: document ") && ContainsSubstring("id 31 is outside the vocabulary") &&
          ContainsSubstring("; the steps before are saved, and a run can go on after step " + std::to_string(steps)));
  CHECK(std::filesystem::exists(checkpoint_of(run.output(), steps) / "manifest.json"));
  return steps;
}

// Checks that the saved checkpoint equals that of a run of so many steps.
void check_saved(const SmallRun& run, const Words& words, std::int64_t steps, int ranks) {
  const auto whole = run.folder() / "whole";
  train_to_the_end(run, joined(joined(words, into(whole)), {"--train.max_steps", std::to_string(steps)}), ranks);
  CHECK(same_bits(states_of(checkpoint_of(run.output(), steps)), states_of(checkpoint_of(whole, steps))));
}

TEST_CASE("an id that no vocabulary has, met in the middle of a run, ends all ranks after a save of all steps before") {
  for (const int ranks : {1, 2}) {
    INFO("ranks " << ranks);
    const SmallRun run;
    write_pair<std::uint16_t>(run.folder(), "train", documents(60, 20), 8);
    const Words words{"--data.train_path", run.folder() / "train.bin"};
    const auto steps = saved_before_the_end(train(run, words, ranks), run, "train");
    REQUIRE(steps >= 1);
    check_saved(run, words, steps, ranks);
  }
}

TEST_CASE("a held-out document that cannot be read ends the run after a save of the step before") {
  const SmallRun run;
  write_pair<std::uint16_t>(run.folder(), "held_out", documents(60, 59), 8);
  const Words words{"--train.eval_steps", "2", "--data.eval_path", run.folder() / "held_out.bin"};
  CHECK(saved_before_the_end(train(run, words, 2), run, "held_out") == 2);
  check_saved(run, {}, 2, 2);
}

TEST_CASE("a run that shall not save at its end does not do so for faulty data, and says nothing of a save") {
  const SmallRun run;
  write_pair<std::uint16_t>(run.folder(), "train", documents(60, 20), 8);
  const auto ended =
      train(run, {"--data.train_path", run.folder() / "train.bin", "--train.checkpoint.save_last", "false"});
  INFO(ended.err);
  CHECK(ended.code == 2);
  CHECK(count_of("is saved", ended.err) == 0);
  CHECK(checkpoints_in(run.output()).empty());
}

TEST_CASE("a file of data that gets shorter while ranks train on it ends the job with code 4 and one message") {
  struct Cut {
    std::string path, file;
  };
  for (const auto& cut :
       {Cut{"train.bin", "train.bin"}, Cut{"train.bin", "train.idx"}, Cut{"lines.jsonl", "lines.jsonl"}}) {
    INFO(cut.file);
    const SmallRun run;
    write_pair<std::uint16_t>(run.folder(), "train", documents(2000), 8);
    run.folder().write("lines.jsonl", jsonl(documents(2000)));
    Command job(joined(joined(mpirun(2), {TESSERA_TRAIN}),
                       run.words({"--data.train_path", run.folder() / cut.path, "--train.max_steps", "1000000",
                                  "--train.num_train_epochs", "1000000"})),
                mpi_environment());
    REQUIRE(wait_for_lines(job, run.output() / "metrics.jsonl", 3));
    std::filesystem::resize_file(run.folder() / cut.file, 0);
    const auto ended = job.wait();
    INFO(ended.err);
    CHECK(ended.code == 4);
    CHECK(count_of("] error ", ended.err) == 1);
    CHECK_THAT(ended.err, ContainsSubstring("error rank ") &&
                              ContainsSubstring((run.folder() / cut.file).string() +
                                                " became shorter while it was in use: it had ") &&
                              ContainsSubstring("now it has 0"));
  }
}

}  // namespace
}  // namespace tessera::test

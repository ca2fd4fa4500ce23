// If this failed, a run would save at other steps than it was told to, remove checkpoints that it should keep, or count
// steps wrongly.
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "resumed_run.h"
#include "support/catch.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Names = std::set<std::string>;

const std::string prefix = "--train.checkpoint.";

Names saved_with(const Words& words, const std::string& steps) {
  const SmallRun run;
  train_to_the_end(run, joined(joined(words, {"--train.max_steps", steps}), {"--train.num_train_epochs", "3"}));
  return checkpoints_in(run.output());
}

// 19 windows in steps of four: an epoch ends with steps 5, 10 and 15.
TEST_CASE("the steps that are due are saved, and the last one") {
  CHECK(saved_with({}, "3") == Names{"step_000003"});
  CHECK(saved_with({prefix + "save_last", "false"}, "3").empty());
  CHECK(saved_with({prefix + "save_steps", "3"}, "7") == Names{"step_000003", "step_000006", "step_000007"});
  CHECK(saved_with({prefix + "save_steps", "3", prefix + "save_last", "false"}, "7") ==
        Names{"step_000003", "step_000006"});
  CHECK(saved_with({prefix + "save_epochs", "1"}, "12") == Names{"step_000005", "step_000010", "step_000012"});
  CHECK(saved_with({prefix + "save_epochs", "2"}, "12") == Names{"step_000010", "step_000012"});
  CHECK(saved_with({prefix + "save_epochs", "1", prefix + "save_steps", "5"}, "11") ==
        Names{"step_000005", "step_000010", "step_000011"});
}

TEST_CASE("outdated checkpoints go once a newer one is whole; the newest and the multiples stay") {
  for (const char* async : {"false", "true"}) {
    const Words each{prefix + "save_steps", "1", prefix + "save_async", async};
    CHECK(saved_with(joined(each, {prefix + "keep_last", "2"}), "6") == Names{"step_000005", "step_000006"});
    CHECK(saved_with(joined(each, {prefix + "keep_last", "1", prefix + "keep_every", "4"}), "10") ==
          Names{"step_000004", "step_000008", "step_000010"});
  }
}

TEST_CASE("a run that was done does nothing more but evaluate") {
  const SmallRun run;
  const Words words{
      "--data.eval_path", run.folder() / "eval.jsonl", "--train.eval_steps", "2", "--train.max_steps", "3"};
  train_to_the_end(run, words);
  const auto lines = measured(run.output());
  const auto manifest = base::read_file(checkpoint_of(run.output(), 3) / "manifest.json");
  const auto written = std::filesystem::last_write_time(checkpoint_of(run.output(), 3) / "manifest.json");
  for (int again = 0; again < 2; ++again) {
    const auto done = train_to_the_end(run, joined(words, go_on));
    CHECK_THAT(done.err, ContainsSubstring("all 3 steps are done"));
    CHECK((measured(run.output()) == lines));
    CHECK(base::read_file(checkpoint_of(run.output(), 3) / "manifest.json") == manifest);
    CHECK(std::filesystem::last_write_time(checkpoint_of(run.output(), 3) / "manifest.json") == written);
  }
  // Another output folder gets the run's end, too.
  train_to_the_end(run, joined(joined(words, from(run.output())), into(run.folder() / "elsewhere")));
  CHECK(checkpoints_in(run.folder() / "elsewhere") == Names{"step_000003"});
  CHECK(same_bits(states_of(checkpoint_of(run.folder() / "elsewhere", 3)), states_of(checkpoint_of(run.output(), 3))));
}

TEST_CASE("a run that goes back replaces what it reaches again, and goes on from its own latest") {
  const SmallRun run;
  train_to_the_end(run, joined(every_step, {"--train.max_steps", "6"}));
  const auto lines = measured(run.output());
  const auto last = states_of(checkpoint_of(run.output(), 6));
  // Step 6 is of the course before.
  train_to_the_end(run, joined(joined(every_step, from(checkpoint_of(run.output(), 3))), {"--train.max_steps", "5"}));
  CHECK(checkpoints_in(run.output()).size() == 6);
  const auto resumed = train_to_the_end(run, joined(joined(every_step, go_on), {"--train.max_steps", "6"}));
  CHECK_THAT(resumed.err, ContainsSubstring("resumed from " + checkpoint_of(run.output(), 5).string()));
  CHECK((measured(run.output()) == lines));
  CHECK(same_bits(states_of(checkpoint_of(run.output(), 6)), last));
}

TEST_CASE(
    "own_first: a job's own latest, else the checkpoint that it was given, else a fresh start; the log says which") {
  const SmallRun run;
  const auto given = run.folder() / "given", own = run.folder() / "own";
  train_to_the_end(run, joined(into(given), {"--train.max_steps", "2"}), 2);
  const Words first{"--train.checkpoint.own_first", "true"};
  const auto start = [&](const Words& words, const std::string& steps, int ranks = 1) {
    return train_to_the_end(run, joined(joined(words, first), {"--train.max_steps", steps}), ranks).err;
  };
  CHECK_THAT(start(joined(from(given), into(own)), "4", 2),
             ContainsSubstring("first start, from train.checkpoint.load_path = " + given.string()) &&
                 ContainsSubstring("resumed from " + checkpoint_of(given, 2).string()));
  CHECK_THAT(start(joined(from(given), into(own)), "5", 2),
             ContainsSubstring("load_path = " + given.string() + " is not read: it was for the first start") &&
                 ContainsSubstring("resumed from " + checkpoint_of(own, 4).string()));
  // What was given may be gone by then.
  std::filesystem::remove_all(given);
  CHECK_THAT(start(joined(from(given), into(own)), "6", 2),
             ContainsSubstring("resumed from " + checkpoint_of(own, 5).string()));
  CHECK_THAT(start({}, "2"), ContainsSubstring("fresh start: there is no checkpoint in "));
  CHECK_THAT(start(go_on, "3"), ContainsSubstring("resumed from " + checkpoint_of(run.output(), 2).string()));
}

TEST_CASE("a held-out loss that is no number fails a run each time it is started again, and writes no weights") {
  const SmallRun run;
  const Words words{"--train.max_steps",
                    "1",
                    "--train.optimizer.lr",
                    "1e30",
                    "--data.eval_path",
                    run.folder() / "eval.jsonl",
                    "--train.checkpoint.save_hf_weights",
                    "true"};
  for (const int start : {1, 2}) {  // on so many ranks, with the same micro-steps
    const Words ranked{"--train.micro_batch_size", std::to_string(2 / start)};
    const auto ended = train(run, joined(joined(words, ranked), go_on), start);
    INFO(ended.err);
    CHECK(ended.code == 3);
    CHECK_THAT(ended.err, ContainsSubstring("error evaluation after step 1: the output of layer 0"));
    CHECK_FALSE(std::filesystem::exists(run.output() / "hf"));
    CHECK(column(read_metrics(run.output() / "metrics.jsonl"), "eval/ce_loss").size() == 1);
  }
}

TEST_CASE("skipped steps are counted on, and are not the optimizer's") {
  const SmallRun run;
  // Every second document has no targets; each document is a step.
  std::string lines;
  for (int d = 0; d < 10; ++d) {
    const bool has_targets = d % 2 == 0;
    lines += R"({"input_ids": [1, 2, 3, 4, 5], "labels": )";
    lines += has_targets ? "[1, 2, 3, 4, 5]}\n" : "[-100, -100, -100, -100, -100]}\n";
  }
  run.folder().write("half.jsonl", lines);
  const auto words = joined(every_step, {"--data.train_path", run.folder() / "half.jsonl", "--data.max_seq_len", "4",
                                         "--data.documents", "separate", "--train.global_batch_size", "1",
                                         "--train.num_train_epochs", "2", "--train.max_steps", "1000",
                                         // Rates that follow from the number of all steps, which the epochs give.
                                         "--train.optimizer.lr_decay_style", "cosine"});
  train_to_the_end(run, words);
  const auto all = measured(run.output());
  const auto last = checkpoint::read_manifest(checkpoint_of(run.output(), 20)).progress;
  CHECK(last.skipped_steps == 10);
  CHECK(last.optimizer_steps == 10);
  CHECK(last.tokens == 80);
  const auto killed = run.folder() / "killed";
  for (const std::int64_t stop : {3, 10, 14}) {
    copy_as_killed(run.output(), stop, killed);
    const auto before = checkpoint::read_manifest(checkpoint_of(killed, stop)).progress;
    CHECK(before.skipped_steps + before.optimizer_steps == stop);
    const auto resumed = train_to_the_end(run, joined(joined(words, go_on), into(killed)));
    CHECK_THAT(resumed.err, ContainsSubstring("10 skipped"));
    CHECK((measured(killed) == all));
    CHECK(checkpoint::read_manifest(checkpoint_of(killed, 20)).progress == last);
    CHECK(same_bits(states_of(checkpoint_of(killed, 20)), states_of(checkpoint_of(run.output(), 20))));
  }
}

TEST_CASE("a manifest says where the run stood") {
  const SmallRun run;
  train_to_the_end(run, joined(every_step, {"--data.eval_path", run.folder() / "eval.jsonl", "--train.eval_steps", "2",
                                            "--train.max_steps", "7", "--train.micro_batch_size", "3"}));
  const auto tokens = column(read_metrics(run.output() / "metrics.jsonl"), "tokens");
  double sum = 0;
  for (std::int64_t step = 1; step <= 7; ++step) {
    CAPTURE(step);
    const auto manifest = checkpoint::read_manifest(checkpoint_of(run.output(), step));
    const auto& p = manifest.progress;
    sum += tokens.at(static_cast<std::size_t>(step) - 1);
    CHECK(p.step == step);
    CHECK(p.optimizer_steps == step);
    CHECK(p.skipped_steps == 0);
    CHECK(p.total_steps == 7);
    CHECK(p.tokens == static_cast<std::int64_t>(sum));
    CHECK(p.global_batch == 4);
    CHECK(p.micro_step == 3);
    CHECK(p.evaluated_at == (step <= 2 ? -1 : (step - 1) / 2 * 2));  // a step is saved, then evaluated
    CHECK(p.epoch == step / 5);
    CHECK(p.window == (step < 5 ? 4 * step : 4 * (step - 5)));
    CHECK(manifest.layout == "1 rank");
  }
}

}  // namespace
}  // namespace tessera::test

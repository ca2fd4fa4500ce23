// If this failed, a stopped and resumed run would differ from an uninterrupted one: in its numbers, its data or its
// lines.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/stored_checkpoint.h"
#include "resumed_run.h"
#include "support/catch.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;

const std::string accelerator = "--train.accelerator.";

Words evaluated(const SmallRun& run) {
  return {"--data.eval_path",
          run.folder() / "eval.jsonl",
          "--train.eval_steps",
          "2",
          "--train.moe_load_balance_monitor_interval",
          "1"};
}

Words groups(const Words& names, const Words& sizes) {
  return joined(joined({accelerator + "extra_parallel_names"}, names),
                joined({accelerator + "extra_parallel_sizes"}, sizes));
}

// An uninterrupted run of `steps` steps that saved each; then runs that were killed some steps after a save of these,
// and went on: their lines and last checkpoints are those of the uninterrupted one, bit for bit.
void check_bits(const SmallRun& run, const Words& words, std::int64_t steps, const std::vector<std::int64_t>& stops,
                int ranks = 1) {
  const auto common = joined(joined(words, every_step), {"--train.max_steps", std::to_string(steps)});
  train_to_the_end(run, common, ranks);
  const auto lines = measured(run.output());
  const auto last = checkpoint_of(run.output(), steps);
  const auto killed = run.folder() / "killed";
  for (const auto stop : stops) {
    INFO("after step " << stop);
    copy_as_killed(run.output(), stop, killed);
    const auto resumed = train_to_the_end(run, joined(joined(common, go_on), into(killed)), ranks);
    CHECK_THAT(resumed.err, ContainsSubstring("resumed from " + checkpoint_of(killed, stop).string()));
    CHECK((measured(killed) == lines));
    const auto again = checkpoint_of(killed, steps);
    CHECK(same_bits(states_of(again), states_of(last)));
    // Each rank's own file too.
    for (int rank = 0; rank < ranks; ++rank) {
      const auto shard = "shard_0000" + std::to_string(rank) + ".safetensors";
      CHECK(base::read_file(again / shard) == base::read_file(last / shard));
    }
    CHECK(checkpoint::read_manifest(again).progress == checkpoint::read_manifest(last).progress);
  }
}

TEST_CASE("a run that goes on in the same layout has the bits of one that was not interrupted") {
  for (const auto& words :
       {Words{"--train.precision", "float32"}, Words{"--train.precision", "bfloat16", "--data.documents", "separate"},
        Words{"--train.precision", "float64", "--train.micro_batch_size", "3"},
        Words{"--train.optimizer.type", "sgd", "--train.optimizer.momentum", "0.9"},
        Words{"--train.optimizer.type", "sgd", "--train.optimizer.weight_decay", "0.1"},
        Words{"--train.optimizer.lr_decay_style", "cosine", "--train.optimizer.lr_warmup_ratio", "0.4"},
        Words{"--train.checkpoint.save_async", "true", "--model.router_z_loss_coef", "0.003"}}) {
    INFO(words[0] << " " << words[1]);
    const SmallRun run;
    check_bits(run, joined(evaluated(run), words), 6, {3});
  }
}

// CKP-4: there is no random state to restore; each rank's masters and moments say so.
TEST_CASE("CKP-4: on several ranks too, each rank has its bits again") {
  const SmallRun run;
  check_bits(run, joined(evaluated(run), groups({"ep", "emb"}, {"2", "2"})), 6, {3}, 2);
}

TEST_CASE(
    "CKP-5: the data go on where they were: in the first epoch, at its border, in the next, documents apart or not") {
  for (const char* documents : {"joined", "separate"}) {
    INFO(documents);
    const SmallRun run;
    const std::vector<std::int64_t> stops{1, 3, 5, 6, 7, 10, 11};
    check_bits(run, {"--data.documents", documents, "--train.num_train_epochs", "3"}, 12, stops);
    std::set<std::string> places;
    for (const auto stop : stops) {
      const auto progress = checkpoint::read_manifest(checkpoint_of(run.output(), stop)).progress;
      places.insert((progress.window == 0 ? "at the border of epoch " : "in epoch ") + std::to_string(progress.epoch));
    }
    CHECK_THAT(
        (std::vector<std::string>{places.begin(), places.end()}),
        Catch::Matchers::Contains(std::vector<std::string>{"at the border of epoch 1", "in epoch 0", "in epoch 1"}));
  }
}

struct Other {
  int ranks;
  Words words;
};

// The uninterrupted run's numbers in float64, whatever ranks go on.
void check_same(const Measured& lines, const Measured& expected) {
  REQUIRE(lines.size() == expected.size());
  for (std::size_t k = 0; k < lines.size(); ++k)
    for (const auto& [key, value] : expected[k].first) {
      if (key.starts_with("grad_norm/")) continue;  // by groups, which differ
      CAPTURE(k, key, value.value());
      REQUIRE(lines[k].first.contains(key));
      CHECK(std::abs(lines[k].first.at(key).value() - *value) <= 1e-10 * std::abs(*value));
    }
}

TEST_CASE("other ranks in other layouts go on with the same data and, in float64, the same numbers") {
  const SmallRun run;
  const Words common = joined(joined(evaluated(run), every_step),
                              {"--train.precision", "float64", "--model.balance_loss", "sequence", "--train.max_steps",
                               "8", "--data.documents", "separate", "--train.optimizer.max_grad_norm", "0.5"});
  train_to_the_end(run, common);
  const auto expected = measured(run.output());
  const auto states = states_of(checkpoint_of(run.output(), 8));
  // Each goes on from the checkpoint of the one before it: one rank's, two ranks', three ranks', four ranks'.
  auto checkpoint = checkpoint_of(run.output(), 2);
  std::int64_t step = 2;
  for (const auto& [ranks, words] :
       {Other{2, groups({"ep"}, {"2"})}, Other{3, {accelerator + "fsdp_config.fsdp_mode", "ddp"}},
        Other{4, joined(groups({"ep", "emb"}, {"2", "4"}), {"--train.micro_batch_size", "2"})}, Other{1, {}}}) {
    INFO(ranks << " ranks go on after step " << step);
    const auto output = run.folder() / ("on_" + std::to_string(ranks));
    const auto resumed =
        train_to_the_end(run, joined(joined(common, words), joined(from(checkpoint), into(output))), ranks);
    check_same(after(measured(output), static_cast<double>(step)), after(expected, static_cast<double>(step)));
    CHECK(largest_deviation(states_of(checkpoint_of(output, 8)), states) <= 1e-9);
    CHECK_THAT(resumed.err, ContainsSubstring("read of") && ContainsSubstring("needed, hashes of"));
    for (const char* path : {"extra_parallel_names", "fsdp_config.fsdp_mode"})
      if (std::ranges::find(words, accelerator + path) != words.end())
        CHECK_THAT(resumed.err, ContainsSubstring("do not alter the run:") &&
                                    ContainsSubstring(accelerator.substr(2) + path + ": "));
    checkpoint = checkpoint_of(output, ++step);
  }
}

TEST_CASE("a checkpoint written in the background has the bytes of one that is waited for") {
  const SmallRun run;
  const auto words = joined(every_step, groups({"ep"}, {"2"}));
  train_to_the_end(run, words, 2);
  const auto output = run.folder() / "async";
  train_to_the_end(run, joined(joined(words, into(output)), {"--train.checkpoint.save_async", "true"}), 2);
  CHECK(checkpoints_in(output) == checkpoints_in(run.output()));
  CHECK(checkpoints_in(output).size() == 5);
  for (const auto& name : checkpoints_in(output)) {
    INFO(name);
    for (const char* shard : {"shard_00000.safetensors", "shard_00001.safetensors"})
      CHECK(base::read_file(output / name / shard) == base::read_file(run.output() / name / shard));
    const auto manifest = checkpoint::read_manifest(output / name);
    const auto waited = checkpoint::read_manifest(run.output() / name);
    CHECK(manifest.progress == waited.progress);
    CHECK(manifest.model == waited.model);
  }
}

// The lines of a whole run stand once, in order, whatever was written after the save that a run goes on from.
TEST_CASE("metrics are cut back to the step that a run goes on from, evaluations and an unfinished line too") {
  const SmallRun run;
  const auto common = joined(joined(evaluated(run), every_step), {"--train.max_steps", "6"});
  train_to_the_end(run, common);
  const auto lines = measured(run.output());
  const auto killed = run.folder() / "killed";
  for (const std::int64_t stop : {1, 2, 4, 5}) {
    copy_as_killed(run.output(), stop, killed);
    auto text = base::read_file(killed / "metrics.jsonl");
    run.folder().write("killed/metrics.jsonl", text.substr(0, text.size() - 9));
    train_to_the_end(run, joined(joined(common, go_on), into(killed)));
    CHECK((measured(killed) == lines));
  }
  // Into another folder: the lines after that step.
  train_to_the_end(run, joined(joined(common, from(checkpoint_of(run.output(), 4))), into(run.folder() / "elsewhere")));
  auto later = after(lines, 4);
  const auto elsewhere = measured(run.folder() / "elsewhere");
  // The evaluation of step 4 comes after its save, and so again.
  CHECK((after(elsewhere, 4) == later));
  REQUIRE(elsewhere.size() == later.size() + 1);
  CHECK(elsewhere.front().first.at("step") == 4);
  CHECK(elsewhere.front().first.contains("eval/ce_loss"));
}

}  // namespace
}  // namespace tessera::test

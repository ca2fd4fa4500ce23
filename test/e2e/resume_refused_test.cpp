// If this failed, a run would silently start anew, resume from the wrong checkpoint, or continue with settings that
// make it another run.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/manifest.h"
#include "config/fields.h"
#include "resumed_run.h"
#include "support/catch.h"
#include "support/command.h"

namespace tessera::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using config::Field;
using config::OnResume;

constexpr const char* other_weights = TESSERA_SOURCE_DIR "/test/oracle/fixtures/base";

void check_refused(const Ran& ran, const Words& reasons) {
  INFO(ran.err);
  CHECK(ran.code == 2);
  CHECK(count_of("] error ", ran.err) == 1);
  for (const auto& reason : reasons) CHECK_THAT(ran.err, ContainsSubstring(reason));
}

TEST_CASE("CKP-3: an explicit path that is no checkpoint is refused with those that are there") {
  const SmallRun run;
  train_to_the_end(run, joined(every_step, {"--train.max_steps", "2"}));
  const auto output = run.output().string();
  const auto elsewhere = into(run.folder() / "elsewhere");
  check_refused(train(run, joined(from(output + "/step_000999"), elsewhere)),
                {output + "/step_000999 is not the folder of a checkpoint; checkpoints in " + output +
                 ": step_000001, step_000002"});
  const auto empty = run.folder() / "empty";
  std::filesystem::create_directory(empty);
  check_refused(train(run, joined(from(empty), elsewhere)),
                {empty.string() + " is a folder without a whole checkpoint"});
  check_refused(train(run, joined(from(run.folder() / "none/at/all"), elsewhere)), {"none/at/all", "none"});
  check_refused(train(run, joined(from(run.folder() / "config.json"), elsewhere)), {"config.json"});
  CHECK_FALSE(std::filesystem::exists(run.folder() / "elsewhere"));
  // On several ranks it is told once, too.
  check_refused(train(run, joined(from(output + "/step_000999"), elsewhere), 2), {"step_000001, step_000002"});
  CHECK_FALSE(std::filesystem::exists(run.folder() / "elsewhere"));
}

TEST_CASE("the precision that auto was is no change when it is named, and another one is") {
  const SmallRun run;
  train_to_the_end(run, joined(every_step, {"--train.max_steps", "2", "--train.precision", "auto"}));
  const auto goes_on = joined(every_step, joined(go_on, {"--train.max_steps", "2"}));
  const auto named = train_to_the_end(run, joined(goes_on, {"--train.precision", "float32"}));
  CHECK_THAT(named.err, ContainsSubstring("after step 2"));
  check_refused(train(run, joined(goes_on, {"--train.precision", "bfloat16"})),
                {"train.precision: float32 -> bfloat16"});
}

TEST_CASE("CKP-3: a whole output folder, its latest, a folder with a slash and auto are understood, and said") {
  const SmallRun run;
  const auto common = joined(every_step, {"--train.max_steps", "2"});
  CHECK_THAT(train_to_the_end(run, joined(common, go_on)).err,
             ContainsSubstring("fresh start: there is no checkpoint in " + run.output().string()));
  const auto second = "resumed from " + checkpoint_of(run.output(), 2).string() + " after step 2 (1 rank)";
  CHECK_THAT(train_to_the_end(run, joined(common, go_on)).err, ContainsSubstring(second));
  const auto elsewhere = joined(common, into(run.folder() / "elsewhere"));
  CHECK_THAT(train_to_the_end(run, joined(elsewhere, from(run.output()))).err, ContainsSubstring(second));
  CHECK_THAT(train_to_the_end(run, joined(elsewhere, from(checkpoint_of(run.output(), 1) / ""))).err,
             ContainsSubstring("step_000001/ after step 1"));
}

TEST_CASE("CKP-3: weights and checkpoints that ask for each other's place are told apart, loudly") {
  const SmallRun run;
  const Words model{"--model.config_path", std::string(other_weights) + "/config.json",
                    "--model.model_path",  other_weights,
                    "--train.max_steps",   "1"};
  const auto first = train_to_the_end(run, model);
  CHECK(count_of("has checkpoints of an earlier run", first.err) == 0);
  const auto loss = column(read_metrics(run.output() / "metrics.jsonl"), "loss");
  // Without load_path the weights win, and a warning says what will be replaced.
  const auto again = train_to_the_end(run, model);
  CHECK_THAT(again.err, ContainsSubstring("warning " + run.output().string() +
                                          " has checkpoints of an earlier run (step_000001)"));
  CHECK_THAT(again.err, ContainsSubstring("--train.checkpoint.load_path auto"));
  CHECK(column(read_metrics(run.output() / "metrics.jsonl"), "loss") == loss);
  // With it the checkpoint wins, and a warning says that.
  const auto resumed = train_to_the_end(run, joined(joined(model, go_on), {"--train.max_steps", "2"}));
  CHECK_THAT(resumed.err,
             ContainsSubstring("the weights are those of the checkpoint, not those of model.model_path = "));
  CHECK(column(read_metrics(run.output() / "metrics.jsonl"), "loss").size() == 2);
}

TEST_CASE("CKP-3: a model of another shape is refused with its parameters' names") {
  const SmallRun run;
  train_to_the_end(run, {"--train.max_steps", "1"});
  check_refused(train(run, joined(go_on, {"--model.hidden_size", "16"})),
                {"is of another model", "model.embed_tokens.weight is [31, 15] in it, and [31, 16] in the model"});
  check_refused(train(run, joined(go_on, {"--model.num_hidden_layers", "4"})),
                {"it has no model.layers.3.mlp.experts.gate_proj"});
  check_refused(train(run, joined(go_on, {"--model.num_hidden_layers", "2"})),
                {"the model has no model.layers.2.mlp.experts.gate_proj"});
}

// A run of two steps; each case changes one of its settings.
struct Changed {
  Changed() {
    run.folder().write("other.jsonl", jsonl_of(small_documents(23, 5)));
    run.folder().write("held_out.txt", "held out");
    train_to_the_end(run, two_steps);
  }
  [[nodiscard]] Ran resumed(const Words& change) const { return train(run, joined(joined(two_steps, go_on), change)); }

  const Words two_steps{"--train.max_steps", "2", "--train.optimizer.weight_decay", "0.01"};
  SmallRun run;
};

Words example_of(const Field& field) { return joined(joined(field.beside, {"--" + field.path}), field.example); }

// Checks that a run with `words` is refused with `line`, and resumed if the change is allowed.
void check_alters(const Changed& changed, const Words& words, const std::string& line) {
  CAPTURE(words, line);
  check_refused(changed.resumed(words), {"was written by a run that these settings would not continue", line,
                                         "--train.checkpoint.allow_changes true"});
  const auto allowed = changed.resumed(joined(words, {"--train.checkpoint.allow_changes", "true"}));
  INFO(allowed.err);
  CHECK(allowed.code == 0);
  CHECK_THAT(allowed.err, ContainsSubstring("this run is changed by " + line));
}

TEST_CASE("every setting that alters a run is named with both values, and refused unless it is allowed") {
  const Changed changed;
  int settings = 0;
  for (const Field& field : config::fields()) {
    if (field.role != config::FieldRole::setting || field.on_resume != OnResume::alters) continue;
    check_alters(changed, example_of(field), field.path + ": ");
    ++settings;
  }
  CHECK(settings >= 19);
  const auto two = changed.resumed({"--train.seed", "43", "--train.optimizer.lr", "0.5"});
  check_refused(two, {"train.seed: 42 -> 43", "train.optimizer.lr: 0.01 -> 0.5"});
}

TEST_CASE("settings are compared by their effect, not by their words: data, global batch, steps, model") {
  const Changed changed;
  const auto other = changed.run.folder() / "other.jsonl";
  check_alters(changed, {"--data.train_path", other}, "data.train_path: these are other data");
  check_alters(changed, {"--train.global_batch_size", "3"}, "train.global_batch_size: 4 -> 3 sequences");
  for (const auto& [key, value, was] : {std::tuple{"num_experts_per_tok", "3", "2"},
                                        {"rms_norm_eps", "0.001", "1e-06"},
                                        {"norm_topk_prob", "false", "true"},
                                        {"router_aux_loss_coef", "0.5", "0.02"}})
    check_alters(changed, {std::string("--model.") + key, value},
                 std::string("model.") + key + ": " + was + " -> " + value);
  // The same data elsewhere.
  std::filesystem::copy_file(changed.run.folder() / "train.jsonl", changed.run.folder() / "moved.jsonl");
  for (const auto& words :
       {Words{"--data.train_path", changed.run.folder() / "moved.jsonl"}, Words{"--model.initializer_range", "0.5"}}) {
    CAPTURE(words);
    CHECK(changed.resumed(words).code == 0);
  }
}

TEST_CASE("data that changed outside of the windows that are compared are refused too, on any number of ranks") {
  const Changed changed;
  // The last id of a document, in turn: whichever windows are looked at, most of these lie outside.
  for (const std::size_t document : {3, 11, 19}) {
    auto documents = small_documents(23);
    auto& id = documents[document].back();
    id = id == 30 ? 20 : id ^ 1;
    changed.run.folder().write("train.jsonl", jsonl_of(documents));
    check_refused(changed.resumed({}), {"data.train_path: ", "--train.checkpoint.allow_changes true"});
  }
  check_alters(changed, {}, "data.train_path: ");
  check_refused(train(changed.run, joined(changed.two_steps, go_on), 2), {"data.train_path: "});
}

TEST_CASE("held-out data that changed are told, and the run goes on") {
  const SmallRun run;
  const Words words{"--train.max_steps", "1", "--data.eval_path", run.folder() / "eval.jsonl"};
  train_to_the_end(run, words);
  CHECK(count_of("held-out data have changed", train_to_the_end(run, joined(words, go_on)).err) == 0);
  run.folder().write("eval.jsonl", jsonl_of(small_documents(7, 24)));
  CHECK(count_of("held-out data have changed", train_to_the_end(run, joined(words, go_on)).err) == 1);
}

TEST_CASE("a global batch that follows from the number of ranks is another one on other ranks, and refused") {
  const SmallRun run;
  const Words by_ranks{"--train.global_batch_size", "null", "--train.max_steps", "1"};
  train_to_the_end(run, by_ranks);
  check_refused(train(run, joined(by_ranks, go_on), 2), {"train.global_batch_size: 1 -> 2 sequences"});
}

TEST_CASE("micro-steps of another size alter a run whose balance loss is taken over them, and no other") {
  const std::string line = "sequences of a micro-step (train.micro_batch_size times data ranks)";
  const Words three{"--train.micro_batch_size", "3"};
  const Changed changed;
  check_alters(changed, three,
               line + ", over which the balance loss is taken: 1 -> 3 (--train.micro_batch_size 1 keeps");
  check_refused(train(changed.run, joined(joined(changed.two_steps, go_on), {"--train.micro_batch_size", "1"}), 2),
                {line + ", over which the balance loss is taken: 1 -> 2\n"});
  const auto unaltered = [&](const Words& words, const Words& later, int ranks = 1) {
    CAPTURE(words, later, ranks);
    const SmallRun run;
    const auto common = joined(words, {"--train.max_steps", "1"});
    train_to_the_end(run, common);
    const auto resumed = train(run, joined(joined(common, go_on), later), ranks);
    INFO(resumed.err);
    CHECK(resumed.code == 0);
    CHECK(count_of("sequences of a micro-step", resumed.err) == 0);
  };
  unaltered({"--model.balance_loss", "sequence"}, three);
  unaltered({"--model.router_aux_loss_coef", "0"}, three);
  // The same sequences on two ranks; all of the step in one micro-step, whatever it could hold.
  unaltered({"--train.micro_batch_size", "2"}, {"--train.micro_batch_size", "1"}, 2);
  unaltered({"--train.micro_batch_size", "4"}, {"--train.micro_batch_size", "8"});
}

TEST_CASE("another optimizer, if it is allowed, starts with its own moments, and says so") {
  const SmallRun run;
  const Words sgd{"--train.optimizer.type", "sgd", "--train.max_steps", "2"};
  train_to_the_end(run, sgd);
  const auto resumed =
      train_to_the_end(run, joined(go_on, {"--train.max_steps", "3", "--train.checkpoint.allow_changes", "true"}));
  CHECK_THAT(resumed.err, ContainsSubstring("this run is changed by train.optimizer.type: sgd -> adamw"));
  CHECK_THAT(resumed.err, ContainsSubstring("the checkpoint has no exp_avg, exp_avg_sq: the optimizer starts anew"));
  const auto progress = checkpoint::read_manifest(checkpoint_of(run.output(), 3)).progress;
  CHECK(progress.step == 3);
  CHECK(progress.optimizer_steps == 1);
}

TEST_CASE("harmless settings are logged with both values, and the run goes on") {
  const Changed changed;
  // Not on one rank, not without a dry run, or not of this run's folder.
  const std::set<std::string> elsewhere{"train.accelerator.dp_replicate_size",
                                        "train.accelerator.dp_shard_size",
                                        "train.accelerator.extra_parallel_sizes",
                                        "train.accelerator.extra_parallel_names",
                                        "train.accelerator.extra_parallel_placement_innermost",
                                        "train.accelerator.parallel_plan",
                                        "train.accelerator.world_size",
                                        "train.checkpoint.output_dir"};
  const std::map<std::string, Words> examples{
      {"data.eval_path", {"--data.eval_path", changed.run.folder() / "eval.jsonl"}},
      {"train.eval_steps", {"--train.eval_steps", "2", "--data.eval_path", changed.run.folder() / "eval.jsonl"}},
      {"data.format", {"--data.format", "jsonl"}},
      {"train.log.trace", {"--train.log.trace", changed.run.folder() / "trace.json"}},
      // Tests see no GPU.
      {"train.accelerator.device", {"--train.accelerator.device", "cpu"}},
      {"train.accelerator.backend", {"--train.accelerator.backend", "mpi"}},
      {"train.threads", {"--train.threads", "2"}}};
  int settings = 0;
  for (const Field& field : config::fields()) {
    const bool is_harmless = field.role == config::FieldRole::setting && field.on_resume == OnResume::harmless;
    if (!is_harmless || elsewhere.contains(field.path) || !field.not_yet.empty()) continue;
    const auto given = examples.find(field.path);
    const auto resumed = changed.resumed(given != examples.end() ? given->second : example_of(field));
    CAPTURE(field.path, resumed.err);
    CHECK(resumed.code == 0);
    if (field.path == "train.log.level") continue;  // it hides the line
    CHECK_THAT(resumed.err, ContainsSubstring("\n  " + field.path + ": "));
    ++settings;
  }
  CHECK(settings >= 20);
}

TEST_CASE("other data that are allowed begin with their first window, and the steps count on") {
  const Changed changed;
  const auto resumed = changed.resumed({"--data.train_path", changed.run.folder() / "other.jsonl", "--train.max_steps",
                                        "4", "--train.checkpoint.allow_changes", "true", "--train.log.level", "debug"});
  INFO(resumed.err);
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.err, ContainsSubstring("step 3: epoch 0, windows 0 to 3"));
  CHECK(column(read_metrics(changed.run.output() / "metrics.jsonl"), "loss").size() == 4);
}

TEST_CASE("more steps are harmless where the learning rate does not know their number, and refused where it does") {
  const Words more{"--train.max_steps", "5"};
  const SmallRun constant;
  train_to_the_end(constant, {"--train.max_steps", "3"});
  CHECK_THAT(train_to_the_end(constant, joined(go_on, more)).err, ContainsSubstring(": 3 -> 5\n"));
  CHECK(column(read_metrics(constant.output() / "metrics.jsonl"), "loss").size() == 5);
  const SmallRun uninterrupted;
  train_to_the_end(uninterrupted, more);
  CHECK((measured(constant.output()) == measured(uninterrupted.output())));
  for (const Words& schedule :
       {Words{"--train.optimizer.lr_decay_style", "cosine"}, Words{"--train.optimizer.lr_warmup_ratio", "0.5"}}) {
    CAPTURE(schedule);
    const SmallRun run;
    train_to_the_end(run, joined(schedule, {"--train.max_steps", "3"}));
    check_refused(train(run, joined(joined(schedule, go_on), more)),
                  {"steps of the whole run (train.max_steps, train.num_train_epochs): 3 -> 5; learning rates follow"});
    CHECK(
        train(run, joined(joined(schedule, go_on), joined(more, {"--train.checkpoint.allow_changes", "true"}))).code ==
        0);
  }
}

}  // namespace
}  // namespace tessera::test

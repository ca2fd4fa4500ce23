// If this failed, a run would find out only after its training that it cannot write an output, overwrite files that it
// did not write, or omit from its model the files that came with the model it started from.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "resumed_run.h"
#include "support/catch.h"
#include "support/huggingface_folder.h"
#include "support/ranked_command.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

const Words weights{"--train.checkpoint.save_hf_weights", "true"};

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
  return names;
}

std::vector<std::string> kinds_in(const fs::path& metrics) {
  std::vector<std::string> kinds;
  for (const auto& line : read_metrics(metrics)) kinds.push_back(line.kind);
  return kinds;
}

// A model as HuggingFace has it, with what Tessera does not read.
void write_model(const fs::path& folder, const nlohmann::json& keys) {
  using namespace checkpoint;
  auto config = small_config(Sizes::coprime);
  config.vocab_size = 31;  // of the documents
  write_folder(folder, config, separate_tensors(config, ElementType::F32), ElementType::F32);
  auto json = nlohmann::json::parse(base::read_file(folder / "config.json"));
  json.update(keys);
  std::ofstream(folder / "config.json") << json;
}

Words begin_with(const fs::path& model) { return {"--model.config_path", model, "--model.model_path", model}; }

TEST_CASE(
    "an output that a run could not write is told before its first step, by one message that names it, on any ranks") {
  struct Case {
    std::string what;
    std::function<void(const SmallRun&)> make;
    std::function<Words(const SmallRun&)> words;
    Words messages;
  };
  const auto folder_named = [](const char* name) {
    return [name](const SmallRun& run) { fs::create_directories(run.output() / name); };
  };
  const auto none = [](const SmallRun&) { return Words{}; };
  const std::vector<Case> cases{
      {"a timeline in a folder that is not there",
       [](const SmallRun&) {},
       [](const SmallRun&) {
         return Words{"--train.log.trace", "/nonexistent/x"};
       },
       {"train.log.trace = /nonexistent/x: there is no folder /nonexistent"}},
      {"a timeline that is a folder",
       [](const SmallRun&) {},
       [](const SmallRun& run) {
         return Words{"--train.log.trace", run.folder().path()};
       },
       {"train.log.trace = ", "is a folder; give the name of a file"}},
      {"a timeline in the place of another file",
       [](const SmallRun& run) { run.folder().write("notes.txt", "mine"); },
       [](const SmallRun& run) {
         return Words{"--train.log.trace", run.folder() / "notes.txt"};
       },
       {"notes.txt exists and is no timeline of an earlier run"}},
      {"a timeline under the name of the metrics",
       [](const SmallRun&) {},
       [](const SmallRun& run) {
         return Words{"--train.log.trace", run.output() / "metrics.jsonl"};
       },
       {"the run writes another file of that name"}},
      {"metrics", folder_named("metrics.jsonl"), none, {"output/metrics.jsonl is a folder"}},
      {"settings", folder_named("settings.resolved.json"), none, {"output/settings.resolved.json is a folder"}},
      {"latest", folder_named("latest"), none, {"output/latest is a folder"}},
      {"a file in the place of the weights",
       [](const SmallRun& run) { run.folder().write("output/hf", "mine"); },
       [](const SmallRun&) { return weights; },
       {"train.checkpoint.save_hf_weights: ", "output/hf exists and is no folder"}},
      {"the record of the weights",
       [](const SmallRun& run) { fs::create_directories(run.output() / "hf.json"); },
       [](const SmallRun&) { return weights; },
       {"train.checkpoint.save_hf_weights: ", "output/hf.json is a folder"}},
      {"another model in the place of the weights",
       [](const SmallRun& run) { run.folder().write("output/hf/model.safetensors", "mine"); },
       [](const SmallRun&) { return weights; },
       {"output/hf/model.safetensors was not written there by a run", "tessera-convert"}},
  };
  for (const auto& [what, make, words, messages] : cases)
    for (const int ranks : {1, 2}) {
      INFO(what << ", ranks " << ranks);
      const SmallRun run;
      make(run);
      const bool was_there = fs::exists(run.output());
      const auto before = names_in(run.output());
      const auto refused = train(run, words(run), ranks);
      INFO(refused.err);
      CHECK(refused.code == 2);
      CHECK(count_of("] error ", refused.err) == 1);
      CHECK(count_of("step 1/", refused.err) == 0);
      for (const auto& message : messages) CHECK_THAT(refused.err, ContainsSubstring(message));
      CHECK(fs::exists(run.output()) == was_there);
      CHECK(names_in(run.output()) == before);
      if (fs::exists(run.folder() / "notes.txt")) CHECK(base::read_file(run.folder() / "notes.txt") == "mine");
    }
}

TEST_CASE("a refused run removes the output folder, and those above it, if it made them") {
  const SmallRun run;
  fs::create_directory(run.folder() / "mine");
  for (const auto* output : {"mine/a/b", "mine"}) {
    INFO(output);
    const auto refused =
        train(run, {"--train.checkpoint.output_dir", run.folder() / output, "--train.log.trace", "/nonexistent/x"});
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(fs::is_directory(run.folder() / "mine"));
    CHECK(fs::is_empty(run.folder() / "mine"));
  }
}

TEST_CASE("weights are not written into the folder that they are read from") {
  const SmallRun run;
  const auto model = run.output() / "hf";
  write_model(model, nlohmann::json::object());
  const auto before = base::read_file(model / "model.safetensors");
  const auto refused = train(run, joined(begin_with(model), weights));
  INFO(refused.err);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, ContainsSubstring("save_hf_weights would write into ") &&
                              ContainsSubstring("model.model_path") && ContainsSubstring("output_dir"));
  CHECK(base::read_file(model / "model.safetensors") == before);
}

TEST_CASE("a timeline that cannot be written at the end is code 4, and all else is written") {
  const SmallRun run;
  const auto place = run.folder() / "place";
  fs::create_directory(place);
  const auto words = joined({"--train.log.trace", place / "trace.json", "--train.max_steps", "400",
                             "--train.num_train_epochs", "400", "--data.eval_path", run.folder() / "eval.jsonl"},
                            weights);
  Command job(joined(joined(mpirun(2), {TESSERA_TRAIN}), run.words(words)), mpi_environment());
  REQUIRE(wait_for_lines(job, run.output() / "metrics.jsonl", 1));
  fs::rename(place, run.folder() / "gone");
  const auto ended = job.wait();
  INFO(ended.err);
  CHECK(ended.code == 4);
  CHECK(count_of("] error ", ended.err) == 1);
  CHECK_THAT(ended.err, ContainsSubstring((place / "trace.json").string()) &&
                            ContainsSubstring("all 400 steps are done") && ContainsSubstring("  weights: ") &&
                            ContainsSubstring("  checkpoint: ") && !ContainsSubstring("  timeline: ") &&
                            !ContainsSubstring("nothing was written"));
  CHECK(fs::exists(run.output() / "hf/model.safetensors"));
  CHECK(kinds_in(run.output() / "metrics.jsonl").back() == "traffic");
}

TEST_CASE("files that a user put beside the weights stay when the weights are written again") {
  const SmallRun run;
  const Words alone{"--train.micro_batch_size", "2"};  // the micro-steps of two ranks
  train_to_the_end(run, joined(joined(weights, alone), {"--train.max_steps", "2"}));
  const auto hf = run.output() / "hf";
  const auto first = base::read_file(hf / "model.safetensors");
  run.folder().write("output/hf/tokenizer.json", "my tokenizer");
  run.folder().write("output/hf/runs/notes.txt", "my notes");
  const auto more = joined(joined(weights, go_on), {"--train.max_steps", "3"});
  CHECK_THAT(train_to_the_end(run, more, 2).err,
             ContainsSubstring("hf keeps files that no run wrote: runs, tokenizer.json"));
  CHECK(base::read_file(hf / "model.safetensors") != first);
  CHECK(base::read_file(hf / "tokenizer.json") == "my tokenizer");
  CHECK(base::read_file(hf / "runs/notes.txt") == "my notes");
  // Weights that a user has changed are a user's.
  const auto mine = first + "changed";
  run.folder().write("output/hf/model.safetensors", mine);
  const auto refused = train(run, joined(joined(more, alone), {"--train.max_steps", "4"}));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err,
             ContainsSubstring("hf/model.safetensors was not written there by a run, or was changed since"));
  CHECK(base::read_file(hf / "model.safetensors") == mine);
}

TEST_CASE("metrics of another run are kept under a name that is told, and no file has the lines of two runs") {
  const SmallRun run;
  const auto metrics = run.output() / "metrics.jsonl";
  const Words unsaved{"--train.checkpoint.save_last", "false", "--train.max_steps", "2"};
  train_to_the_end(run, unsaved);
  const auto first = base::read_file(metrics), settings = base::read_file(run.output() / "settings.resolved.json");
  const auto again = train_to_the_end(run, joined(unsaved, {"--train.seed", "7"}));
  CHECK_THAT(again.err, ContainsSubstring("metrics.jsonl has the lines of another run; it is kept as ") &&
                            ContainsSubstring("output/metrics.1.jsonl") &&
                            ContainsSubstring("output/settings.resolved.1.json"));
  CHECK(base::read_file(run.output() / "metrics.1.jsonl") == first);
  CHECK(base::read_file(run.output() / "settings.resolved.1.json") == settings);
  const auto second = base::read_file(metrics);

  // A run that goes on from a checkpoint elsewhere is none of this folder's.
  train_to_the_end(run, joined(into(run.folder() / "other"), {"--train.max_steps", "1"}));
  train_to_the_end(run, joined(from(run.folder() / "other"), {"--train.max_steps", "3"}));
  CHECK(base::read_file(run.output() / "metrics.2.jsonl") == second);
  CHECK(column(read_metrics(metrics), "loss").size() == 2);

  // Nor does a run go on in metrics that do not lead to its checkpoint.
  const auto third = base::read_file(metrics);
  std::ofstream(metrics) << third.substr(0, third.find('\n') + 1);
  CHECK_THAT(train_to_the_end(run, joined(go_on, {"--train.max_steps", "4"})).err,
             ContainsSubstring("does not lead to step 3, from which this run goes on, but to step 2"));
  CHECK(fs::exists(run.output() / "metrics.3.jsonl"));
  CHECK(column(read_metrics(metrics), "step") == std::vector<double>{4});
}

TEST_CASE("a checkpoint under a name of the user's is known by its step, and named where it is") {
  const SmallRun run;
  const Words words = joined(joined(every_step, weights), {"--train.max_steps", "2"});
  train_to_the_end(run, words);
  const auto best = run.output() / "best";
  fs::rename(checkpoint_of(run.output(), 2), best);
  fs::remove_all(run.output() / "hf");
  const auto done = train_to_the_end(run, joined(words, from(best)));
  CHECK_THAT(done.err, ContainsSubstring("  checkpoint: " + best.string() + "\n"));
  CHECK(fs::exists(run.output() / "hf/model.safetensors"));
  CHECK(checkpoints_in(run.output()) == std::set<std::string>{"step_000001"});
  // `latest` names what is not there: those that are, are told.
  const auto lost = train(run, joined(words, go_on));
  CHECK(lost.code == 2);
  CHECK_THAT(lost.err,
             ContainsSubstring("names step_000002, which is not there") && ContainsSubstring("step_000001, best"));
  // A folder that is called by another step holds the step of its manifest.
  fs::rename(best, checkpoint_of(run.output(), 7));
  const auto later =
      train_to_the_end(run, joined(joined(words, from(checkpoint_of(run.output(), 7))), {"--train.max_steps", "3"}));
  CHECK_THAT(later.err, ContainsSubstring("after step 2 (1 rank)"));
  CHECK(checkpoints_in(run.output()) == std::set<std::string>{"step_000001", "step_000003", "step_000007"});
}

TEST_CASE("a folder that only has the name of a checkpoint is kept under a name that is told") {
  const SmallRun run;
  run.folder().write("output/step_000002/notes.txt", "mine");
  const auto done = train_to_the_end(run, {"--train.max_steps", "2"});
  CHECK_THAT(done.err, ContainsSubstring("step_000002 was no checkpoint; it is kept as "));
  CHECK(base::read_file(run.output() / "step_000002.1/notes.txt") == "mine");
  CHECK(checkpoints_in(run.output()) == std::set<std::string>{"step_000002"});
}

TEST_CASE("a run that was done changes no byte of its metrics, on any ranks, but for other held-out data") {
  for (const int ranks : {1, 2}) {
    INFO("ranks " << ranks);
    const SmallRun run;
    const auto metrics = run.output() / "metrics.jsonl";
    const Words words{"--data.eval_path", run.folder() / "eval.jsonl", "--train.max_steps", "3"};
    const auto first = train_to_the_end(run, words, ranks);
    const auto result = first.err.substr(first.err.find("  held-out cross entropy "), 50);
    const auto text = base::read_file(metrics);
    const auto kinds = kinds_in(metrics);
    CHECK(std::count(kinds.begin(), kinds.end(), "evaluation") == 1);
    CHECK(std::count(kinds.begin(), kinds.end(), "traffic") == (ranks > 1 ? 1 : 0));
    for (int again = 0; again < 2; ++again) {
      const auto done = train_to_the_end(run, joined(words, go_on), ranks);
      CHECK(base::read_file(metrics) == text);
      CHECK(count_of("evaluation after step", done.err) == 0);
      CHECK_THAT(done.err,
                 ContainsSubstring("all 3 steps had been taken before this start: nothing is left to train") &&
                     ContainsSubstring(result));
    }
    run.folder().write("held_out.jsonl", jsonl_of(small_documents(5, 3)));
    const auto other = train_to_the_end(
        run, joined(joined(words, go_on), {"--data.eval_path", run.folder() / "held_out.jsonl"}), ranks);
    CHECK(count_of("evaluation after step 3", other.err) == 1);
    CHECK(kinds_in(metrics).size() == kinds.size() + 1);
  }
}

TEST_CASE("a limit on the steps that the checkpoint has passed is told") {
  const SmallRun run;
  train_to_the_end(run, {"--train.max_steps", "3"});
  const auto text = base::read_file(run.output() / "metrics.jsonl");
  const auto fewer = train_to_the_end(run, joined(go_on, {"--train.max_steps", "2"}));
  CHECK_THAT(fewer.err, ContainsSubstring("train.max_steps = 2, but ") &&
                            ContainsSubstring("step_000003 has taken 3 steps") &&
                            ContainsSubstring("nothing is left to train"));
  CHECK(base::read_file(run.output() / "metrics.jsonl") == text);
  CHECK(count_of("has taken", train_to_the_end(run, joined(go_on, {"--train.max_steps", "3"})).err) == 0);
}

TEST_CASE("a model keeps the files of its HuggingFace folder through a run, a resume and tessera-convert") {
  const SmallRun run;
  const auto& folder = run.folder();
  const nlohmann::json keys{{"eos_token_id", {7, 8}}, {"bos_token_id", 5}, {"pad_token_id", nullptr}, {"_my_key", "x"}};
  write_model(folder / "in", keys);
  const std::map<std::string, std::string> companions{
      {"generation_config.json", R"({"eos_token_id": [7, 8]})"}, {"tokenizer.json", "{}"}, {"LICENSE", "yours"}};
  for (const auto& [name, content] : companions) folder.write("in/" + name, content);
  folder.write("in/notes.bin", "not of the model");
  folder.write("in/model-00001-of-00002.safetensors", "another copy");
  const auto words = joined(joined(begin_with(folder / "in"), weights), {"--train.optimizer.lr", "0"});
  const auto first = train_to_the_end(run, joined(words, {"--train.max_steps", "1"}), 2);
  CHECK(count_of("the weights are those of model.safetensors; model-00001-of-00002.safetensors beside it", first.err) ==
        1);
  // The source is gone, and the run goes on by the shape of its model alone.
  auto config_json = nlohmann::json::parse(base::read_file(folder / "in/config.json"));
  for (const auto& [key, unused] : keys.items()) config_json.erase(key);
  const auto shape = folder.write("shape.json", config_json.dump());
  fs::remove_all(folder / "in");
  train_to_the_end(run, joined(joined(weights, go_on), {"--model.config_path", shape, "--train.optimizer.lr", "0",
                                                        "--train.max_steps", "2", "--train.micro_batch_size", "2"}));
  REQUIRE(run_command({TESSERA_CONVERT, run.output(), folder / "out"}).code == 0);
  REQUIRE(run_command({TESSERA_CONVERT, folder / "out", folder / "ck"}).code == 0);
  REQUIRE(
      run_command(joined(joined(mpirun(2), {TESSERA_CONVERT}), {folder / "ck", folder / "again"}), mpi_environment())
          .code == 0);
  for (const auto& exported : {run.output() / "hf", folder / "out", folder / "again"}) {
    INFO(exported.string());
    const auto config = nlohmann::json::parse(base::read_file(exported / "config.json"));
    for (const auto& [key, value] : keys.items()) {
      REQUIRE(config.contains(key));
      CHECK(config[key] == value);
    }
    for (const auto& [name, content] : companions) CHECK(base::read_file(exported / name) == content);
    CHECK_FALSE(fs::exists(exported / "notes.bin"));
  }
  // They have hashes as all of a checkpoint.
  std::ofstream(checkpoint_of(run.output(), 2) / "tokenizer.json") << "[]";
  const auto damaged = train(run, joined(go_on, {"--model.config_path", shape}));
  CHECK(damaged.code == 2);
  CHECK_THAT(damaged.err, ContainsSubstring("step_000002/tokenizer.json does not have the length and the hash"));
}

}  // namespace
}  // namespace tessera::test

// If this failed, a component of a run would not be built as its settings say.
#include "train/assemble.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/catch.h"
#include "support/error_of.h"
#include "support/small_run.h"

namespace tessera::train {
namespace {

std::vector<std::string> notes_about_plans(const config::Settings& settings) {
  std::vector<std::string> found;
  for (const auto& note : make_blueprint(settings, 2).notes)
    if (note.find("has entries that this run does not use") != std::string::npos) found.push_back(note);
  return found;
}

TEST_CASE("entries of the plan that shard nothing are noted where groups or a plan were asked for") {
  const test::SmallRun files;
  auto settings = files.settings();
  CHECK(notes_about_plans(settings).empty());
  settings.train.accelerator.extra_parallel_names = {"ep"};
  settings.train.accelerator.extra_parallel_sizes = {2};
  const auto notes = notes_about_plans(settings);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].find("emb (not named)") != std::string::npos);
  CHECK(notes[0].find("ep (") == std::string::npos);
}

TEST_CASE("the program of a step is made once for its number of micro-steps") {
  const test::SmallRun files;
  test::Start start(files.settings({"--train.micro_batch_size", "3", "--train.global_batch_size", "7"}));
  auto& assembly = start.assembly();
  using program::StepKind;
  CHECK(assembly.program(StepKind::train, 7).micro_steps == 3);
  CHECK(&assembly.program(StepKind::train, 7) == &assembly.program(StepKind::train, 8));
  CHECK(&assembly.program(StepKind::train, 7) != &assembly.program(StepKind::train, 6));
  CHECK(assembly.program(StepKind::evaluate, 2).micro_steps == 1);
}

TEST_CASE("that the cross entropy cannot teach a router of one renormalised choice is noted") {
  const test::SmallRun files;
  const auto is_noted = [&](const test::Words& words) {
    const auto notes = make_blueprint(files.settings(words), 1).notes;
    return std::any_of(notes.begin(), notes.end(),
                       [](const auto& note) { return note.find("num_experts_per_tok = 1 with norm_topk_prob") == 0; });
  };
  CHECK(is_noted({"--model.num_experts_per_tok", "1"}));
  CHECK_FALSE(is_noted({"--model.num_experts_per_tok", "2"}));
  CHECK_FALSE(is_noted({"--model.num_experts_per_tok", "1", "--model.norm_topk_prob", "false"}));
  CHECK_FALSE(is_noted({"--model.num_experts_per_tok", "1", "--model.mlp_only_layers", "0", "1", "2"}));
}

TEST_CASE("a norm_topk_prob that config.json leaves out is told, whose value decides the losses") {
  const test::SmallRun files;
  const auto is_noted = [&](const test::Words& words) {
    const auto notes = make_blueprint(files.settings(words), 1).notes;
    return std::any_of(notes.begin(), notes.end(), [](const auto& note) {
      return note.find("config.json has no norm_topk_prob, so it is false, as in HuggingFace") == 0;
    });
  };
  CHECK_FALSE(is_noted({}));
  auto config = nlohmann::json::parse(base::read_file(files.folder() / "config.json"));
  REQUIRE(config.erase("norm_topk_prob") == 1);
  files.folder().write("config.json", config.dump());
  CHECK(is_noted({}));
  CHECK_FALSE(is_noted({"--model.norm_topk_prob", "true"}));
  CHECK_FALSE(is_noted({"--model.mlp_only_layers", "0", "1", "2"}));
}

TEST_CASE("data without a sample is refused under the name of its setting, held-out data too") {
  const test::SmallRun files;
  const std::string empty = files.folder().write("empty.jsonl", "\n\n");
  for (const auto& [split, setting] :
       {std::pair{Split::training, "data.train_path"}, {Split::evaluation, "data.eval_path"}}) {
    const auto blueprint = make_blueprint(files.settings({std::string("--") + setting, empty}), 1);
    CHECK(test::error_of([&] { static_cast<void>(make_dataset(blueprint, split)); }) ==
          std::string(setting) + ": 0 usable samples: " + empty + ": 0 read, 2 blank lines");
  }
}

}  // namespace
}  // namespace tessera::train

// If this failed, a run that is told to stop would go on evaluating until it is killed, or faulty data would be trained
// on.
#include "train/trainer.h"
#include "train/total_steps.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>
#include <utility>

#include "support/catch.h"
#include "support/error_of.h"
#include "support/faulty_files.h"
#include "support/small_run.h"
#include "unit/data/corpus_files.h"

namespace tessera::train {
namespace {

TEST_CASE("a signal ends the evaluation under way without a result, and the run after its whole step") {
  const test::SmallRun files;
  for (const std::string max_steps : {"5", "1"}) {  // between two steps, and after the last one
    INFO("max_steps " << max_steps);
    test::Start start(files.settings({"--data.eval_path", files.folder() / "eval.jsonl", "--train.eval_steps", "1",
                                      "--train.max_steps", max_steps}));
    auto& assembly = start.assembly();
    const auto training = make_dataset(assembly.blueprint(), Split::training);
    const auto evaluation = make_dataset(assembly.blueprint(), Split::evaluation);
    base::make_folder(files.output());
    const auto path = files.output() / "metrics.jsonl";
    bool raised = false;
    test::FaultyFiles raising([&](test::FileCall call, const base::Path&) {  // when the first line is written
      if (call == test::FileCall::write && !std::exchange(raised, true)) REQUIRE(std::raise(SIGTERM) == 0);
    });
    const StopSignals signals;
    MetricsFile metrics(path, ExistingMetrics::replace, raising);
    Report report(total_steps(*training, assembly.blueprint().settings.train, assembly.blueprint().global_batch), 1,
                  Audience::file);
    const auto ending = Trainer({.assembly = assembly,
                                 .training = *training,
                                 .evaluation = evaluation.get(),
                                 .signals = signals,
                                 .metrics = &metrics,
                                 .report = report})
                            .train();
    metrics.close();
    CHECK(ending.signal == SIGTERM);
    CHECK(ending.steps == 1);
    CHECK(ending.reason == "stopped by SIGTERM after step 1");
    CHECK_FALSE(ending.evaluation.has_value());
    const auto lines = test::read_metrics(path);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].numbers.at("step") == 1);
  }
}

TEST_CASE("an id outside the vocabulary that is met while reading ends the run, naming file, document and place") {
  const test::SmallRun files;
  const auto path = test::write_pair<std::uint16_t>(files.folder(), "t", {{1, 2, 3, 4}, {5, 31, 7, 8}, {9, 10, 11}}, 8);
  for (const char* documents : {"joined", "separate"}) {
    INFO(documents);
    const auto settings =
        files.settings({"--data.train_path", path, "--data.documents", documents, "--data.max_seq_len", "3"});
    CHECK_THAT(test::error_of([&] { static_cast<void>(test::run_training(settings)); }),
               Catch::Matchers::ContainsSubstring(
                   "t.bin: document 1, token 1: id 31 is outside the vocabulary: ids go from 0 to 30"));
  }
}

TEST_CASE("data whose bytes differ from those of the checkpoint end the run, or are told where that is allowed") {
  const test::SmallRun files;
  for (const std::string allowed : {"false", "true"}) {
    test::Start start(files.settings({"--train.max_steps", "2", "--train.checkpoint.load_path", "auto",
                                      "--train.checkpoint.allow_changes", allowed}));
    auto& assembly = start.assembly();
    const data::ContentHash content(start.training().corpus());
    content.wait();
    const auto train_from = [&](std::uint64_t stored) {
      const StopSignals signals;
      Report report(2, 1, Audience::file);
      const checkpoint::Progress begin{.data_content = stored};
      return Trainer({.assembly = assembly,
                      .training = start.training(),
                      .signals = signals,
                      .report = report,
                      .start = begin,
                      .content = &content})
          .train();
    };
    REQUIRE(content.value().has_value());
    CHECK(train_from(0).steps == 2);
    CHECK(train_from(*content.value()).steps == 2);
    if (allowed == "true")
      CHECK(train_from(*content.value() + 1).steps == 2);
    else
      CHECK_THAT(test::error_of([&] { static_cast<void>(train_from(*content.value() + 1)); }),
                 Catch::Matchers::ContainsSubstring("data.train_path: files have changed since the checkpoint") &&
                     Catch::Matchers::ContainsSubstring("allow_changes true"));
  }
}

TEST_CASE("the last checkpoint has the hash of the data if little of it is left to read, and else is not held up") {
  const test::SmallRun files;
  const test::TempFolder hashed;
  hashed.write("a.txt", std::string(1000, 'a'));
  const auto last_file = hashed.write("b.txt", "b");
  const data::Corpus corpus(test::corpus_options(hashed.path()));
  for (const bool little_is_left : {true, false}) {
    INFO("little is left: " << little_is_left);
    const auto output = files.folder() / (little_is_left ? "little" : "much");
    base::make_folder(output);
    if (!little_is_left) std::filesystem::resize_file(last_file, std::uint64_t{1} << 40);
    std::atomic<int> parts = 0;
    std::atomic<bool> is_released = false;
    const auto release = [&] {
      is_released = true;
      is_released.notify_all();
    };
    const data::ContentHash content(corpus, [&] {  // stops before the last file
      if (++parts == 2) is_released.wait(false);
    });
    const std::shared_ptr<void> at_end(nullptr, [&](void*) { release(); });  // also if the test fails
    while (parts < 2) std::this_thread::yield();
    test::FaultyFiles releasing([&](test::FileCall call, const base::Path&) {  // after the last step, before its save
      if (call == test::FileCall::write && little_is_left) release();
    });
    test::Start start(files.settings({"--train.max_steps", "1", "--train.checkpoint.output_dir", output}));
    auto& assembly = start.assembly();
    MetricsFile metrics(output / "metrics.jsonl", ExistingMetrics::replace, releasing);
    const StopSignals signals;
    Report report(1, 1, Audience::file);
    Saves saves(assembly, {.config = "{}", .companions = nullptr}, output, std::nullopt);
    const auto ending = Trainer({.assembly = assembly,
                                 .training = start.training(),
                                 .signals = signals,
                                 .metrics = &metrics,
                                 .report = report,
                                 .start = {.total_steps = 1},
                                 .saves = &saves,
                                 .content = &content})
                            .train();
    metrics.close();
    CHECK(ending.steps == 1);
    const auto stored = checkpoint::read_manifest(output / "step_000001").progress.data_content;
    CHECK(content.value().has_value() == little_is_left);
    CHECK(stored == content.value().value_or(0));
  }
}

}  // namespace
}  // namespace tessera::train

// If this failed, a run that is told to stop would go on evaluating until it is killed, or bad data would be trained
// on.
#include "train/trainer.h"

#include <csignal>

#include "support/catch.h"
#include "support/error_of.h"
#include "support/small_run.h"
#include "unit/data/corpus_files.h"

namespace tessera::train {
namespace {

// Raises SIGTERM when the first line is written.
class RaisingFile final : public base::WritableFile {
 public:
  explicit RaisingFile(std::unique_ptr<base::WritableFile> file) : file_(std::move(file)) {}
  void write(std::span<const std::byte> bytes) override {
    if (!raised_) REQUIRE(std::raise(SIGTERM) == 0);
    raised_ = true;
    file_->write(bytes);
  }
  void sync() override { file_->sync(); }
  void close() override { file_->close(); }

 private:
  std::unique_ptr<base::WritableFile> file_;
  bool raised_ = false;
};

class RaisingFiles final : public base::FileSystem {
 public:
  std::unique_ptr<base::WritableFile> create(const base::Path& path) override { return files_.create(path); }
  std::unique_ptr<base::WritableFile> open_for_append(const base::Path& path) override {
    return std::make_unique<RaisingFile>(files_.open_for_append(path));
  }
  void rename(const base::Path& from, const base::Path& to) override { files_.rename(from, to); }
  void exchange(const base::Path& a, const base::Path& b) override { files_.exchange(a, b); }
  void remove(const base::Path& path) override { files_.remove(path); }
  void make_folder(const base::Path& path) override { files_.make_folder(path); }
  void sync_folder(const base::Path& path) override { files_.sync_folder(path); }

 private:
  base::FileSystem& files_ = base::posix_file_system();
};

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
    RaisingFiles raising;
    const StopSignals signals;
    MetricsFile metrics(path, ExistingMetrics::replace, raising);
    Report report(total_steps(*training, assembly.blueprint().settings.train, assembly.blueprint().global_batch), 1,
                  Audience::file);
    const auto ending = Trainer(assembly, *training, evaluation.get(), signals, &metrics, report).train();
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

}  // namespace
}  // namespace tessera::train

// A run small enough for tests: files of a small model and its data, training within the process, gradients by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "config/settings.h"
#include "data/window.h"
#include "executor/step_result.h"
#include "support/temp_folder.h"
#include "support/words.h"
#include "train/assemble.h"
#include "train/trainer.h"

namespace tessera::test {

using TensorsByName = std::map<std::string, at::Tensor>;

// The documents that small runs train on: `count` of them, of 3 to 19 tokens with ids below 31.
[[nodiscard]] std::vector<std::vector<std::int64_t>> small_documents(std::int64_t count, std::int64_t seed = 0);

// One line a document; labels equal the ids.
[[nodiscard]] std::string jsonl_of(const std::vector<std::vector<std::int64_t>>& documents);

// A folder with config.json (three layers, the first dense; 5 experts, 2 a token; sizes odd and coprime), train.jsonl,
// eval.jsonl; a run writes into its `output`.
class SmallRun {
 public:
  SmallRun();

  [[nodiscard]] const TempFolder& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path output() const { return folder_ / "output"; }
  // The command line that trains here. Options of `more` replace those of the same name; the last one of a name counts.
  [[nodiscard]] Words words(const Words& more = {}) const;
  [[nodiscard]] config::Settings settings(const Words& more = {}) const;

 private:
  TempFolder folder_;
};

// One line of metrics.jsonl: its kind, its numbers (true is 1; NaN where the number is not finite or was not measured),
// and its expert load.
struct MetricsLine {
  std::string kind;
  std::map<std::string, double> numbers;
  std::vector<std::vector<std::int64_t>> expert_load;
};

// Fails the test if the file has a line that is not whole.
[[nodiscard]] std::vector<MetricsLine> read_metrics(const std::filesystem::path& file);
// The values of `key`, line by line, of the lines that have it.
[[nodiscard]] std::vector<double> column(const std::vector<MetricsLine>& lines, const std::string& key);

struct Trained {
  std::vector<MetricsLine> metrics;
  TensorsByName masters;  // of this rank
  TensorsByName moments;  // "<parameter>/<state>"
  train::Ending ending;

  [[nodiscard]] std::vector<double> column(const std::string& key) const { return test::column(metrics, key); }
};

// Trains as train::run does, without its pages. Errors pass through.
[[nodiscard]] Trained run_training(const config::Settings& settings,
                                   const std::shared_ptr<comm::Communicator>& world = comm::solo_communicator());

// The blueprint of a quiet run.
[[nodiscard]] train::Blueprint blueprint_of(const config::Settings& settings, std::int64_t ranks);

// Everything of a run before its first step, on this rank of `world`: alone unless it is given.
class Start {
 public:
  explicit Start(const config::Settings& settings,
                 const std::shared_ptr<comm::Communicator>& world = comm::solo_communicator());
  // `stored`: the checkpoint to go on from, or null.
  Start(train::Blueprint blueprint, const std::shared_ptr<comm::Communicator>& world,
        checkpoint::StoredCheckpoint* stored = nullptr, const std::shared_ptr<comm::Communicator>& gpu_world = nullptr);

  [[nodiscard]] train::Assembly& assembly() { return assembly_; }
  [[nodiscard]] const data::Dataset& training() const { return *training_; }
  // This rank's micro-batches of the first `steps` steps, and the sequences of each step.
  struct Step {
    executor::StepInputs inputs;
    std::int64_t windows = 0;
  };
  [[nodiscard]] std::vector<Step> steps(std::int64_t count) const;

 private:
  train::Assembly assembly_;
  std::unique_ptr<data::Dataset> training_;
};

// What the loader would hand to a step of these micro-batches.
[[nodiscard]] executor::StepInputs inputs_of(const std::vector<std::vector<data::Window>>& micro_batches);

struct Gradients {
  executor::StepResult result;
  TensorsByName of;
};

// Runs the program of a training step without its Update and takes the shard gradients away.
[[nodiscard]] Gradients gradients(train::Assembly& assembly, const Start::Step& step);
// The same with a program that is given: a whole step of `assembly`.
[[nodiscard]] Gradients gradients(train::Assembly& assembly, program::Program program,
                                  const executor::StepInputs& inputs);
// Of the first step that `settings` would train.
[[nodiscard]] Gradients first_gradients(const config::Settings& settings);

// What `box` is of a whole tensor.
[[nodiscard]] at::Tensor part_of(const at::Tensor& whole, const layout::Box& box);

// The largest difference of two tensors of any name, in units of the largest magnitude in `expected` of that name.
// Fails the test if names or shapes differ.
[[nodiscard]] double largest_deviation(const TensorsByName& tensors, const TensorsByName& expected);
[[nodiscard]] bool same_bits(const TensorsByName& a, const TensorsByName& b);

}  // namespace tessera::test

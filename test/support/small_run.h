// Runs small enough for tests: files of a small model and its data, training within the process, gradients by name.
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

// Returns `count` documents that small runs train on, each of 3 to 19 tokens with ids below 31.
[[nodiscard]] std::vector<std::vector<std::int64_t>> small_documents(std::int64_t count, std::int64_t seed = 0);

// Returns the documents as JSONL, one line each; labels equal the ids.
[[nodiscard]] std::string jsonl_of(const std::vector<std::vector<std::int64_t>>& documents);

// A temporary folder with config.json (three layers, the first dense; 5 experts, 2 per token; sizes odd and coprime),
// train.jsonl and eval.jsonl. Runs write into its subfolder `output`.
class SmallRun {
 public:
  SmallRun();

  [[nodiscard]] const TempFolder& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path output() const { return folder_ / "output"; }
  // Returns the command line that trains here. Options in `more` replace those of the same name; of several with one
  // name the last counts.
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

// Reads metrics.jsonl. Fails the test if a line is not whole.
[[nodiscard]] std::vector<MetricsLine> read_metrics(const std::filesystem::path& file);
// Returns the values of `key`, in order, from the lines that have it.
[[nodiscard]] std::vector<double> column(const std::vector<MetricsLine>& lines, const std::string& key);

struct Trained {
  std::vector<MetricsLine> metrics;
  TensorsByName masters;  // this rank's shards
  TensorsByName moments;  // "<parameter>/<state>"
  train::Ending ending;

  [[nodiscard]] std::vector<double> column(const std::string& key) const { return test::column(metrics, key); }
};

// Trains as train::run does, without printing its pages. Passes errors on.
[[nodiscard]] Trained run_training(const config::Settings& settings,
                                   const std::shared_ptr<comm::Communicator>& world = comm::solo_communicator());

// Returns the blueprint of a run that logs errors only.
[[nodiscard]] train::Blueprint blueprint_of(const config::Settings& settings, std::int64_t ranks);

// A run before its first step, on this rank of `world` (one rank alone by default).
class Start {
 public:
  explicit Start(const config::Settings& settings,
                 const std::shared_ptr<comm::Communicator>& world = comm::solo_communicator());
  // `stored`: the checkpoint to go on from, or null.
  Start(train::Blueprint blueprint, const std::shared_ptr<comm::Communicator>& world,
        checkpoint::StoredCheckpoint* stored = nullptr, const std::shared_ptr<comm::Communicator>& gpu_world = nullptr);

  [[nodiscard]] train::Assembly& assembly() { return assembly_; }
  [[nodiscard]] const data::Dataset& training() const { return *training_; }
  // One of the first `count` steps: this rank's micro-batches, and the number of sequences in the step.
  struct Step {
    executor::StepInputs inputs;
    std::int64_t windows = 0;
  };
  [[nodiscard]] std::vector<Step> steps(std::int64_t count) const;

 private:
  train::Assembly assembly_;
  std::unique_ptr<data::Dataset> training_;
};

// Returns the inputs that the loader would make of these micro-batches.
[[nodiscard]] executor::StepInputs inputs_of(const std::vector<std::vector<data::Window>>& micro_batches);

struct Gradients {
  executor::StepResult result;
  TensorsByName of;
};

// Runs the program of a training step without its Update; returns the shard gradients and zeroes them.
[[nodiscard]] Gradients gradients(train::Assembly& assembly, const Start::Step& step);
// The same for a given program, which is a whole step of `assembly`.
[[nodiscard]] Gradients gradients(train::Assembly& assembly, program::Program program,
                                  const executor::StepInputs& inputs);
// Returns the gradients of the first step that `settings` would train.
[[nodiscard]] Gradients first_gradients(const config::Settings& settings);

// Returns the part of a whole tensor that lies in `box`.
[[nodiscard]] at::Tensor part_of(const at::Tensor& whole, const layout::Box& box);

// Returns the largest difference between tensors of the same name, relative to the largest magnitude in `expected` of
// that name. Fails the test if names or shapes differ.
[[nodiscard]] double largest_deviation(const TensorsByName& tensors, const TensorsByName& expected);
[[nodiscard]] bool same_bits(const TensorsByName& a, const TensorsByName& b);

}  // namespace tessera::test

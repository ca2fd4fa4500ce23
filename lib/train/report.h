// Reports a run to people: a page at its start, a line for each step, a page at its end. Pure functions make the texts;
// a Report decides which of them to show, and logs them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "train/metrics.h"

namespace tessera::train {

struct StartPage {
  std::string model;  // "Qwen3-MoE, 4 layers, hidden 128, 8 experts (2 per token), vocabulary 257"
  std::int64_t total_parameters = 0, active_parameters = 0;
  std::string data;        // "3.21M tokens in 12 files, 6.25k windows of 512 tokens"
  std::string evaluation;  // the held-out data likewise; empty: there are none
  std::string steps;       // "200; each has 16 sequences of 256 tokens, in 4 micro-steps of up to 4 sequences"
  std::int64_t tokens_per_step = 0;
  std::string optimizer;                                      // "adamw, lr 0.0003 (cosine); weight decay 0.1 on ..."
  std::vector<std::pair<std::string, std::uint64_t>> memory;  // purpose and bytes, of one rank
  std::string device;                                         // "CPU (2 threads)", "NVIDIA H200, 139.8 GiB (...)"
  std::string precision;                                      // "float32"
  std::int64_t ranks = 1;
  std::string layout;              // "dp_replicate 1, dp_shard 8; ep 4 (inner)"
  std::string hosts;               // "4 on node1, 4 on node2"; empty: not shown
  std::string backend;             // "MPI"; empty: not shown
  std::string output;              // train.checkpoint.output_dir
  std::string checkpoints;         // "every 100 steps and at the end"
  std::vector<std::string> notes;  // one line each
};

struct StepReport {
  StepMetrics metrics;
  std::int64_t total_steps = 0;
  double seconds_left = 0;  // shown if positive
};

struct EndPage {
  std::string reason;  // "all 200 steps are done", "stopped by SIGTERM after step 57"
  std::int64_t steps = 0, skipped_steps = 0;
  std::int64_t tokens = 0;
  double seconds = 0;                                           // wall clock of the training loop
  double step_seconds = 0;                                      // wall clock of its steps, without evaluations
  std::vector<std::pair<std::string, double>> seconds_by_kind;  // of instruction, on one rank; in any order
  std::vector<GroupTraffic> groups;                             // in any order; a group without bytes is not shown
  std::uint64_t peak_memory = 0;                                // bytes of the process; 0: not known
  std::vector<std::string> results;  // one line each: "held-out cross entropy 2.1234, perplexity 8.36", files
};

[[nodiscard]] std::string format_start(const StartPage& page);

// "step  12/200  loss 2.3456 (ce 2.3400, aux 1.0312, z 0.0000)  norm 1.234  lr 3.00e-04  12.3k tokens/s  left 50.1 s"
[[nodiscard]] std::string format_step(const StepReport& report);

// "evaluation after step 100: cross entropy 2.1234, perplexity 8.360 (6.25k tokens in 120 windows, 1.21 s)"
[[nodiscard]] std::string format_evaluation(const EvaluationMetrics& metrics);

// "expert load at step 20: max/mean 1.84 (MoE layer 3 of 4), 1.31 on average over layers". Precondition: `load` has a
// layer.
[[nodiscard]] std::string format_expert_load(const ExpertLoad& load);

[[nodiscard]] std::string format_end(const EndPage& page);

enum class Audience : std::uint8_t { terminal, file };

// Returns the audience of the log: `terminal` if stderr is one.
[[nodiscard]] Audience audience_of_log();

// Not thread-safe. Every rank may have one: it writes with base::log_info, which shows nothing on ranks other than 0.
class Report {
 public:
  // Shows the line of every `every`-th step (train.log.every), or of every 10 * `every`-th if the audience is a file.
  // Always shows the first, the last and skipped steps.
  Report(std::int64_t total_steps, std::int64_t every, Audience audience);

  void start(const StartPage& page) const;
  void step(const StepMetrics& metrics);
  void evaluation(const EvaluationMetrics& metrics) const;
  void expert_load(const ExpertLoad& load) const;
  void end(const EndPage& page) const;

  [[nodiscard]] std::int64_t total_steps() const { return total_steps_; }
  [[nodiscard]] bool shows(const StepMetrics& metrics) const;
  // Estimates the time left from the mean of the last 20 steps. Leaves out the first step, which warms up caches and
  // pools, as soon as there is a second. Negative before the first step.
  [[nodiscard]] double seconds_left() const;

 private:
  std::int64_t total_steps_, every_;
  std::int64_t first_step_ = 0, last_step_ = 0;
  std::deque<double> step_seconds_;
};

}  // namespace tessera::train

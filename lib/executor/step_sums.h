// The sums that frame a step (open, counts, close, replicas) and what is decided with them: clip and update.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "executor/chain_runner.h"
#include "executor/parts.h"
#include "executor/step_result.h"
#include "executor/sum_layout.h"
#include "executor/tape.h"
#include "executor/travels.h"
#include "program/program.h"

namespace tessera::executor {

class StepSums {
 public:
  // All must outlive this object.
  StepSums(const Parts& parts, const program::Program& program, const StepInputs& inputs, Tape& tape, Travels& travels,
           const Measurements& measurements, StepResult& result);

  // Collective over the ranks of the sum.
  void start(const program::Instruction& i);
  void finish(const program::Instruction& i);
  // The factor for the gradients; NaN where nothing may be updated.
  void clip();
  void update();

  // After *open*: the step has nothing to run.
  [[nodiscard]] bool ends_early() const { return ends_early_; }
  // Of a micro-step, after *open*.
  [[nodiscard]] model::StepFacts facts(std::int32_t micro) const;

 private:
  using Instruction = program::Instruction;
  // Numbers whose largest over the ranks is wanted. An operation under way holds them.
  using Maxima = std::shared_ptr<std::vector<double>>;

  void start_open(const Instruction& i);
  void finish_open();
  void start_counts(const Instruction& i);
  void finish_counts(const Instruction& i);
  void start_close(const Instruction& i);
  void finish_close();
  void start_replicas(const Instruction& i);
  // Reduces in place over the world; the wait of `i` ends it.
  void start_reduce(const Instruction& i, const std::shared_ptr<std::vector<double>>& numbers,
                    comm::ReduceOperation operation);
  // By group, of the shards that this rank counts. A norm that is scaled waits for all ranks' largest elements.
  [[nodiscard]] std::vector<double> norm_parts(const Instruction& i);
  // The index of the parameter, or -1.
  [[nodiscard]] std::int64_t last_non_finite_gradient() const;
  void finish_norms();
  // Where the first number that is not finite arose, as a message names it.
  [[nodiscard]] std::string non_finite_place(bool loss_is_finite) const;
  [[nodiscard]] bool trains() const { return program_.kind == program::StepKind::train; }
  [[nodiscard]] bool norms_are_maxima() const;

  struct OpenFields {
    SumField valid_tokens, sequences, data_failed;
    SumField stops;   // the number of ranks for each Stop
    SumField tokens;  // by micro-step
  };
  struct CloseFields {
    SumField cross_entropy, balance, z;
    SumField non_finite_layer;     // by rank: its first one + 1
    SumField non_finite_gradient;  // by rank: its last one + 1
    SumField norms;                // by group, unless they are maxima
    SumField load;                 // by count and expert
  };

  const Parts& parts_;
  const program::Program& program_;
  const StepInputs& inputs_;
  Tape& tape_;
  Travels& travels_;
  const Measurements& measurements_;
  StepResult& result_;
  bool ends_early_ = false;
  OpenFields open_fields_;
  CloseFields close_fields_;
  SumLayout open_layout_, close_layout_;
  SumNumbers open_, close_;
  const Maxima maxima_ = std::make_shared<std::vector<double>>();  // parts of norms that are maxima
  const Maxima scales_ = std::make_shared<std::vector<double>>();  // by group, of a norm that is scaled
  std::map<std::int32_t, at::Tensor> counts_;                      // by micro-step
};

}  // namespace tessera::executor

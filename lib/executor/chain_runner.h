// Runs chains of segments, forward and backward, on the values of a tape.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "executor/parts.h"
#include "executor/tape.h"
#include "program/program.h"

namespace tessera::executor {

// The measurements of the chains of a training step on this rank.
struct Measurements {
  model::HeadSums sums;          // over the micro-steps
  std::vector<at::Tensor> load;  // by Parts::counts: [experts] int64, the slots on this rank so far
  // By layer, in the order of the forward pass: [] bool, true if the output of the layer is finite.
  std::vector<std::pair<std::int32_t, at::Tensor>> finite;

  explicit Measurements(const Parts& parts);
  // Returns the first layer whose output is not finite, or -1. On a GPU the host waits.
  [[nodiscard]] std::int32_t first_non_finite() const;
};

class ChainRunner {
 public:
  // All must outlive the runner.
  ChainRunner(const Parts& parts, const program::Program& program, Tape& tape, Measurements& measurements)
      : parts_(parts), program_(program), tape_(tape), measurements_(measurements) {}

  void forward(const program::Instruction& i, const model::StepFacts& facts);
  void recompute(const program::Instruction& i);
  void backward(const program::Instruction& i);
  // Runs both directions of the chain that measures the loss.
  void forward_backward(const program::Instruction& i, const model::StepFacts& facts);

 private:
  using Instruction = program::Instruction;

  // Runs the steps of a chain on `values`, which holds its inputs.
  void run_steps(const Instruction& i, model::Values& values) const;
  model::HeadSums run_head(const Instruction& i, model::Values& values, const model::StepFacts& facts) const;
  // Return the inputs of a chain: as they are, or as the beginning of a new graph.
  [[nodiscard]] model::Values inputs_of(const Instruction& i) const;
  [[nodiscard]] model::Values inputs_of(const Instruction& i, Graph& graph) const;
  // Adds the outputs of a chain that has run to its graph.
  static void add_outputs(Graph& graph, const program::Chain& chain, const model::Values& values);
  void take_gradients(const Instruction& i) const;
  void add_input_gradients(const Instruction& i, const Graph& graph);
  // Counts the load of experts and notes which layers' outputs are finite. A recomputation does not call it.
  void note_outputs(const program::Chain& chain, const model::Values& values);

  [[nodiscard]] bool trains() const { return program_.kind == program::StepKind::train; }
  [[nodiscard]] const program::Chain& chain_of(const Instruction& i) const {
    return program_.chains[static_cast<std::size_t>(i.target)];
  }

  const Parts& parts_;
  const program::Program& program_;
  Tape& tape_;
  Measurements& measurements_;
};

}  // namespace tessera::executor

// Runs programs. Only here do segments, units, sums and the optimizer meet, and the list of instructions alone gives
// their order.
#pragma once

#include <string>
#include <vector>

#include "executor/parts.h"
#include "executor/step_result.h"
#include "program/program.h"

namespace tessera::executor {

class Executor {
 public:
  // All references must outlive the executor. `optimizer` may be null where only evaluation programs run.
  Executor(const architecture::Architecture& architecture, const model::Model& model, fsdp::ParameterStore& store,
           optim::Optimizer* optimizer, const mesh::Mesh& mesh, ExecutorOptions options);

  // Runs the instructions of `program` one after the other. After *open* the ranks may agree to run no more of them (no
  // valid token, a stop, no data). Collective over the world. Precondition: the program is sound (order_checks.h); a
  // batch per micro-step.
  StepResult run(const program::Program& program, StepInputs inputs);

  // Returns the lines of the instructions that the last run executed, as program::describe writes them.
  [[nodiscard]] const std::vector<std::string>& executed() const { return executed_; }
  [[nodiscard]] const Timeline& timeline() const { return parts_.timeline; }
  [[nodiscard]] Timeline& timeline() { return parts_.timeline; }

 private:
  Parts parts_;
  std::vector<std::string> executed_;
};

}  // namespace tessera::executor

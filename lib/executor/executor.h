// Runs programs: the only place where segments, units, sums and the optimizer meet, and it knows no order but the
// list's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "architecture/architecture.h"
#include "device/numbers.h"
#include "executor/step_result.h"
#include "executor/tape.h"
#include "executor/timeline.h"
#include "fsdp/parameter_store.h"
#include "mesh/mesh.h"
#include "model/qwen3_moe.h"
#include "optim/optimizer.h"
#include "program/program.h"

namespace tessera::executor {

// together: communication is under way while the rank computes. The others run each to its end before the other goes
// on, all ranks of a group starting it at the same time, and count the seconds of one of them alone.
enum class Measured : std::uint8_t { together, compute_alone, communication_alone };

struct ExecutorOptions {
  double max_grad_norm = 1;
  double norm_type = 2;
  config::BalanceLoss balance = config::BalanceLoss::pooled;
  double balance_coef = 0;  // of the balance loss, only to tell whether the total is finite
  double z_coef = 0;
  std::int32_t most_micro_steps = 1;  // of any step or evaluation: the length of *open* follows from it
  device::Numbers numbers;
  Measured measured = Measured::together;
  bool checks_values = false;  // each value that a step stores is compared with its row in the table of values
};

class Executor {
 public:
  // All references must outlive the executor. `optimizer` may be null where only evaluation programs run.
  Executor(const architecture::Architecture& architecture, const model::Qwen3Moe& model, fsdp::ParameterStore& store,
           optim::Optimizer* optimizer, const mesh::Mesh& mesh, ExecutorOptions options);
  ~Executor();

  // Runs the instructions of `program` one after the other. After *open* the ranks may agree to run no more of them (no
  // valid token, a stop, no data). Collective over the world. Precondition: the program is sound (order_checks.h); a
  // batch per micro-step.
  StepResult run(const program::Program& program, StepInputs inputs);

  // The lines of the instructions that the last run executed, as program::describe writes them.
  [[nodiscard]] const std::vector<std::string>& executed() const { return executed_; }
  [[nodiscard]] const Timeline& timeline() const { return timeline_; }
  [[nodiscard]] Timeline& timeline() { return timeline_; }

 private:
  class Run;

  const architecture::Architecture& architecture_;
  const model::Qwen3Moe& model_;
  fsdp::ParameterStore& store_;
  optim::Optimizer* optimizer_;
  const mesh::Mesh& mesh_;
  ExecutorOptions options_;
  std::vector<model::Weights> weights_;  // by step of the architecture
  std::vector<std::string> norm_groups_;
  std::vector<std::string> executed_;
  Timeline timeline_;
};

}  // namespace tessera::executor

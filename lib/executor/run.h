// Runs one program once: one instruction after the other, by the lists of the instructions alone.
#pragma once

#include <string>
#include <vector>

#include "executor/chain_runner.h"
#include "executor/exchange_runner.h"
#include "executor/gpu_times.h"
#include "executor/parts.h"
#include "executor/step_sums.h"
#include "executor/tape.h"
#include "executor/travels.h"
#include "program/program.h"

namespace tessera::executor {

class Run {
 public:
  // All but `inputs` must outlive the run. The lines of the instructions that it executes are added to `executed`.
  Run(Parts& parts, const program::Program& program, StepInputs inputs, std::vector<std::string>& executed);
  StepResult run();

 private:
  using Instruction = program::Instruction;

  // Executes an instruction. Adds the instruction and the rows that it read to errors of LibTorch, such as lack of
  // memory.
  void execute_or_tell(const Instruction& i, const std::string& name);
  void execute(const Instruction& i);
  void start(const Instruction& i);
  void wait(const Instruction& i);
  // Waits until all ranks that `i` communicates with have come to it.
  void meet(const Instruction& i) const;
  // Notes the seconds of an instruction that this rank has run.
  void note_time(const Instruction& i, const std::string& name, double began, double ended);

  Parts& parts_;
  const program::Program& program_;
  const StepInputs inputs_;
  std::vector<std::string>& executed_;
  StepResult result_;
  Tape tape_;
  Travels travels_;
  Measurements measurements_;
  ChainRunner chains_;
  ExchangeRunner exchanges_;
  StepSums sums_;
  GpuTimes gpu_times_;
};

}  // namespace tessera::executor

// One run of one program: an instruction at a time, by nothing but its own lists.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "executor/exchange_rows.h"
#include "executor/executor.h"
#include "executor/gpu_times.h"
#include "executor/value_checks.h"

namespace tessera::executor {

class Executor::Run {
 public:
  Run(Executor& executor, const program::Program& program, StepInputs inputs);
  StepResult run();

 private:
  using Instruction = program::Instruction;
  using Resource = program::Resource;
  // An operation for the timeline: on a GPU it is known later when it was under way.
  struct Traced {
    std::string name, group;
    comm::Handle handle;
  };

  // LibTorch's errors, lack of memory above all, get the instruction and the rows that it read.
  void execute_or_tell(const Instruction& i, const std::string& name);
  void execute(const Instruction& i);
  void start(const Instruction& i);
  void wait(const Instruction& i);
  void add_to_timeline(const Traced& traced) const;
  // Waits for what the ticket of `i` stands for.
  void end_travel(const Instruction& i);
  // All ranks that `i` communicates with have come to it.
  void meet(const Instruction& i) const;
  void free_after(const Instruction& i);

  void forward(const Instruction& i);
  void recompute(const Instruction& i);
  void backward(const Instruction& i);
  void forward_backward(const Instruction& i);
  void start_exchange(const Instruction& i);
  void finish_exchange(const Instruction& i);
  // The identity, of a group of one rank.
  void pass_on(const Instruction& i);
  // What gradients travel back, zeros where no reader contributed one.
  [[nodiscard]] at::Tensor sent_back(const Resource& name, std::int64_t rows, const ExchangeRows& of) const;

  // Adds a value to the tape.
  void store(const Resource& name, at::Tensor value);
  void check_writes(const Instruction& i, const model::Values& values);
  // Runs the steps of a chain on `values`, which holds its inputs.
  void run_chain(const program::Chain& chain, model::Values& values) const;
  model::HeadSums run_head(const Instruction& i, model::Values& values) const;
  // The inputs of a chain: as they are, or entering a new graph.
  [[nodiscard]] model::Values inputs_of(const Instruction& i) const;
  [[nodiscard]] model::Values inputs_of(const Instruction& i, Graph& graph) const;
  // Adds the outputs of a chain that has run.
  static void add_outputs(Graph& graph, const program::Chain& chain, const model::Values& values);
  void take_gradients(const Instruction& i);
  void add_input_gradients(const Instruction& i, const Graph& graph);
  void note_outputs(const program::Chain& chain, const model::Values& values);

  // The communicator for memory where `tensor` is.
  [[nodiscard]] comm::Communicator& group_for(const std::string& group, const at::Tensor& tensor) const;
  [[nodiscard]] std::int32_t first_non_finite() const;

  // Numbers that are summed. An operation under way holds them, though an exception may have ended the run.
  using Numbers = std::shared_ptr<std::vector<double>>;
  // Starts a sum in place over the world; the wait of `i` ends it.
  void start_sum(const Instruction& i, const Numbers& numbers, comm::ReduceOperation operation);
  void start_open(const Instruction& i);
  void finish_open();
  void start_counts(const Instruction& i);
  void finish_counts(const Instruction& i);
  void start_close(const Instruction& i);
  void finish_close();
  void start_replicas(const Instruction& i);
  // By group, of the shards that this rank counts. A norm that is scaled waits for all ranks' largest elements.
  [[nodiscard]] std::vector<double> norm_parts(const Instruction& i);
  [[nodiscard]] std::int64_t last_non_finite_gradient() const;
  void clip();
  void update();
  [[nodiscard]] model::StepFacts facts(std::int32_t micro) const;
  [[nodiscard]] bool is_on_gpu() const { return executor_.options_.numbers.place == device::Place::cuda; }
  // The seconds of an instruction that this rank has gone through.
  void note_time(const Instruction& i, const std::string& name, double began, double ended);
  [[nodiscard]] bool trains() const { return program_.kind == program::StepKind::train; }

  [[nodiscard]] const program::Chain& chain_of(const Instruction& i) const {
    return program_.chains[static_cast<std::size_t>(i.target)];
  }
  [[nodiscard]] const architecture::Step& step(std::int32_t index) const {
    return executor_.architecture_.steps()[static_cast<std::size_t>(index)];
  }
  // For memory of the host.
  [[nodiscard]] const std::shared_ptr<comm::Communicator>& world() const;

  Executor& executor_;
  const program::Program& program_;
  StepInputs inputs_;
  Tape tape_;
  std::optional<ValueChecks> checks_;
  StepResult result_;
  bool ends_early_ = false;
  std::map<std::int32_t, std::vector<fsdp::Travelling>> under_way_;                // by ticket
  std::map<std::int32_t, std::vector<std::pair<Resource, at::Tensor>>> received_;  // by ticket of an exchange
  const Numbers open_ = std::make_shared<std::vector<double>>(), close_ = std::make_shared<std::vector<double>>(),
                maxima_ = std::make_shared<std::vector<double>>(),  // parts of norms that are maxima
      scales_ = std::make_shared<std::vector<double>>();            // by group, of a norm that is scaled
  std::map<std::int32_t, at::Tensor> counts_;                       // by micro-step
  double communication_s_ = 0;
  GpuTimes gpu_times_;
  std::vector<Traced> traced_;
  model::HeadSums sums_;
  std::vector<at::Tensor> load_;  // per MoE layer [experts] int64: slots on this rank so far
  std::vector<std::int32_t> moe_layers_;
  std::vector<std::pair<std::int32_t, at::Tensor>> finite_;  // by layer, in the order of the forward: [] bool
};

}  // namespace tessera::executor

// Makes the parts of a run from the settings, one function each, and holds them in the order in which they depend on
// each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "architecture/architecture.h"
#include "checkpoint/restore.h"
#include "checkpoint/stored_checkpoint.h"
#include "comm/communicator.h"
#include "config/settings.h"
#include "data/dataset.h"
#include "device/numbers.h"
#include "executor/executor.h"
#include "fsdp/parameter_store.h"
#include "layout/layout.h"
#include "mesh/mesh.h"
#include "model/model.h"
#include "optim/optimizer.h"
#include "optim/weight_decay.h"
#include "plan/parallel_plan.h"
#include "plan/placement.h"
#include "program/builder.h"
#include "program/memory_plan.h"

namespace tessera::train {

// The parts that a run knows before it takes any memory. They are enough for --dry-run, for any number of ranks.
struct Blueprint {
  config::Settings settings;  // resolved: `auto` is replaced by what the program chose (prefetch_depth)
  architecture::Architecture architecture;
  std::string config_text;  // config.json as it was read, without the settings' overrides
  layout::Layout layout;
  plan::ParallelPlan plan;
  std::vector<plan::Placement> placements;
  device::Numbers numbers;
  std::int64_t global_batch = 0;  // sequences
  optim::DecayGroups decay;
  std::vector<std::string> notes;  // for the start page

  [[nodiscard]] std::int64_t data_ranks() const { return layout.group_size(layout::GroupId::data()); }
  [[nodiscard]] std::int64_t micro_steps(std::int64_t windows) const;
};

// Reads config.json and the plan, lays out `world` ranks and places every parameter, for ranks that compute at `place`.
// Throws Error(bad_input) with all problems.
[[nodiscard]] Blueprint make_blueprint(const config::Settings& settings, std::int64_t world,
                                       device::Place place = device::Place::cpu);

// Returns the program of a training step or evaluation of `windows` sequences. Its order is checked.
[[nodiscard]] program::Program make_program(const Blueprint& blueprint, program::StepKind kind, std::int64_t windows);

// Returns the memory that the programs of a run need on `rank`: the program of a full step, which is given, that of the
// shortest step, and that of an evaluation.
[[nodiscard]] program::MemoryPlan make_memory_plan(const Blueprint& blueprint, std::int64_t rank,
                                                   const program::Program& full_step);

// Opens the training or the held-out data. Returns null if the setting of its path is empty.
enum class Split : std::uint8_t { training, evaluation };
[[nodiscard]] std::unique_ptr<data::Dataset> make_dataset(const Blueprint& blueprint, Split split);

// Holds everything that one rank trains with.
class Assembly {
 public:
  // Fills masters and moments from the checkpoint `stored`, whose parameters must be the blueprint's. If it is null,
  // fills the masters from the HuggingFace checkpoint of model.model_path or, without one, with initial values.
  // `gpu_world` (see mesh.h) is null on the CPU, and for one rank. Collective over `world`.
  Assembly(Blueprint blueprint, const std::shared_ptr<comm::Communicator>& world,
           checkpoint::StoredCheckpoint* stored = nullptr,
           const std::shared_ptr<comm::Communicator>& gpu_world = nullptr);
  Assembly(const Assembly&) = delete;  // its parts refer to each other
  Assembly& operator=(const Assembly&) = delete;

  [[nodiscard]] const Blueprint& blueprint() const { return blueprint_; }
  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] const mesh::Mesh& mesh() const { return mesh_; }
  [[nodiscard]] comm::Communicator& world() const { return *mesh_.host(layout::GroupId::world()); }
  [[nodiscard]] fsdp::ParameterStore& store() { return *store_; }
  [[nodiscard]] optim::Optimizer& optimizer() { return *optimizer_; }
  [[nodiscard]] executor::Executor& executor() { return *executor_; }
  [[nodiscard]] const model::Model& model() const { return *model_; }
  [[nodiscard]] const program::MemoryPlan& memory_plan() const { return memory_plan_; }
  // Counts the bytes that this rank read of `stored`.
  [[nodiscard]] const checkpoint::Restored& restored() const { return restored_; }
  // Returns the program of a step of `windows` sequences. It is made and checked at its first use.
  [[nodiscard]] const program::Program& program(program::StepKind kind, std::int64_t windows);

 private:
  Blueprint blueprint_;
  std::int64_t rank_;
  mesh::Mesh mesh_;
  std::map<std::pair<program::StepKind, std::int64_t>, program::Program> programs_;  // by micro-steps
  program::MemoryPlan memory_plan_;
  std::unique_ptr<fsdp::ParameterStore> store_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<executor::Executor> executor_;
  checkpoint::Restored restored_;
};

}  // namespace tessera::train

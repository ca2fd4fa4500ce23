// The parts of a run, each made from the settings by one function, and held together in the order in which they depend
// on each other.
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

// What is known before any memory is taken: enough for --dry-run, for any number of ranks.
struct Blueprint {
  config::Settings settings;  // with what was left to the program resolved (prefetch_depth)
  architecture::Architecture architecture;
  std::string config_text;  // config.json as it was read, without the settings' overrides
  layout::Layout layout;
  plan::ParallelPlan plan;
  std::vector<plan::Placement> placements;
  device::Numbers numbers;
  std::int64_t global_batch = 0;  // sequences
  optim::DecayGroups decay;
  std::vector<std::string> notes;  // for the start page

  [[nodiscard]] std::int64_t data_ranks() const { return layout.group_size("data"); }
  [[nodiscard]] std::int64_t micro_steps(std::int64_t windows) const;
};

// Reads config.json and plan, lays out `world` ranks and places every parameter, for ranks that compute at `place`.
// Error(bad_input) with all problems.
[[nodiscard]] Blueprint make_blueprint(const config::Settings& settings, std::int64_t world,
                                       device::Place place = device::Place::cpu);

// The checked program of a step of `windows` sequences.
[[nodiscard]] program::Program make_program(const Blueprint& blueprint, program::StepKind kind, std::int64_t windows);

// What the programs of a run need on `rank`: a full step, whose program is given, the shortest one, an evaluation.
[[nodiscard]] program::MemoryPlan make_memory_plan(const Blueprint& blueprint, std::int64_t rank,
                                                   const program::Program& full_step);

// Opens the training or the held-out data; null if no path is set.
enum class Split : std::uint8_t { training, evaluation };
[[nodiscard]] std::unique_ptr<data::Dataset> make_dataset(const Blueprint& blueprint, Split split);

// Everything that one rank trains with. Masters are filled from a checkpoint of ours, with their moments; else from the
// HuggingFace checkpoint or with initial values.
class Assembly {
 public:
  // Collective over `world`. `stored` may be null; its parameters are the blueprint's. `gpu_world` (see mesh.h) is null
  // where the blueprint's place is the CPU, or for one rank.
  Assembly(Blueprint blueprint, const std::shared_ptr<comm::Communicator>& world,
           checkpoint::StoredCheckpoint* stored = nullptr,
           const std::shared_ptr<comm::Communicator>& gpu_world = nullptr);
  Assembly(const Assembly&) = delete;  // its parts refer to each other
  Assembly& operator=(const Assembly&) = delete;

  [[nodiscard]] const Blueprint& blueprint() const { return blueprint_; }
  [[nodiscard]] std::int64_t rank() const { return rank_; }
  [[nodiscard]] const mesh::Mesh& mesh() const { return mesh_; }
  [[nodiscard]] comm::Communicator& world() const { return *mesh_.host("world"); }
  [[nodiscard]] fsdp::ParameterStore& store() { return *store_; }
  [[nodiscard]] optim::Optimizer& optimizer() { return *optimizer_; }
  [[nodiscard]] executor::Executor& executor() { return *executor_; }
  [[nodiscard]] const model::Model& model() const { return *model_; }
  [[nodiscard]] const program::MemoryPlan& memory_plan() const { return memory_plan_; }
  // What this rank read of `stored`.
  [[nodiscard]] const checkpoint::Restored& restored() const { return restored_; }
  // The program of a step of `windows` sequences, made and checked at its first use.
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

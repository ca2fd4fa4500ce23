// A training shared by several ranks against the same training on one: losses, norms and gradients, step by step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planned_bytes.h"
#include "support/small_run.h"

namespace tessera::test {

// What one rank alone measures.
struct Reference {
  std::vector<executor::StepResult> results;
  std::vector<TensorsByName> gradients;
  // Of a step's largest gradient: a parameter's deviation is not taken in units of less. Else rounding would count
  // where a gradient is zero but for it.
  double least_scale = 0;
};

// Steps of `settings` on one rank, each step's gradients taken before the update.
[[nodiscard]] Reference train_alone(const config::Settings& settings, std::int64_t steps);

struct Deviations {
  double losses = 0;             // relative, of all steps: cross entropy, balance loss, z-loss
  double norms = 0;              // relative: the total and, where both have it, each group's
  double gradients = 0;          // of this rank's shards, in units of the largest magnitude of the whole one
  double first_gradients = 0;    // the same, of the first step alone
  std::string largest_gradient;  // FQN and step
  bool same_load = true;         // slots of each expert, and whether the step was made
  Bytes sent, planned;           // by all ranks in the first step, without the sums over the world

  [[nodiscard]] double largest() const;
};

// What is done to a run on purpose, to see that it is noticed.
struct Sabotage {
  std::function<void(train::Blueprint&)> blueprint;
  std::function<void(train::Assembly&)> assembly;
  std::function<void(program::Program&)> program;
  std::function<void(TensorsByName&)> gradients;  // this rank's shards, behind each step
};

// Collective over `world`. Trains as `settings` say and compares with `reference` at every step.
[[nodiscard]] Deviations compare(const config::Settings& settings, const std::shared_ptr<comm::Communicator>& world,
                                 const Reference& reference, const Sabotage& sabotage = {});

}  // namespace tessera::test

// Compares a training shared by several ranks with the same training on one rank: losses, norms and gradients, step by
// step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "planned_bytes.h"
#include "support/small_run.h"

namespace tessera::test {

// The measurements of one rank alone.
struct Reference {
  std::vector<executor::StepResult> results;
  std::vector<TensorsByName> gradients;
  // A fraction of a step's largest gradient: deviations of a parameter are divided by at least this fraction of it, so
  // that rounding does not count where a gradient would be zero without rounding.
  double least_scale = 0;
};

// Trains `steps` steps of `settings` on one rank and records each step's gradients before the update.
[[nodiscard]] Reference train_alone(const config::Settings& settings, std::int64_t steps);

struct Deviations {
  double losses = 0;             // relative, over all steps: cross entropy, balance loss, z-loss
  double norms = 0;              // relative: the total norm, also as formed from the groups' norms
  double gradients = 0;          // of this rank's shards, relative to the largest magnitude of the whole gradient
  double first_gradients = 0;    // the same in the first step
  std::string largest_gradient;  // FQN and step
  bool same_load = true;         // slots of each expert, and outcomes of steps
  Bytes sent, planned;           // by all ranks in the first step, without the sums over the world

  [[nodiscard]] double largest() const;
};

// Faults put into a run on purpose, to test that the comparison notices them.
struct Sabotage {
  std::function<void(train::Blueprint&)> blueprint;
  std::function<void(train::Assembly&)> assembly;
  std::function<void(program::Program&)> program;
  std::function<void(TensorsByName&)> gradients;  // this rank's shards, after each step
};

// Trains as `settings` say and compares every step with `reference`. Collective over `world`.
[[nodiscard]] Deviations compare(const config::Settings& settings, const std::shared_ptr<comm::Communicator>& world,
                                 const Reference& reference, const Sabotage& sabotage = {});

}  // namespace tessera::test

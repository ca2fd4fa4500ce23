#include "executor/executor.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "executor/run.h"

namespace tessera::executor {

namespace {

using UnitNumbers = std::unordered_map<std::string_view, std::size_t>;

UnitNumbers numbers_of(const std::vector<plan::Unit>& units) {
  UnitNumbers numbers;
  for (std::size_t u = 0; u < units.size(); ++u) numbers.emplace(units[u].name, u);
  return numbers;
}

model::Weights weights_of(const architecture::Step& step, const architecture::Architecture& architecture,
                          const UnitNumbers& units, fsdp::ParameterStore& store) {
  model::Weights weights;
  if (step.unit.empty()) return weights;
  const auto unit = units.at(step.unit);
  const auto& uses = architecture.units()[unit].uses;
  for (const auto& u : step.uses) {
    const auto use = std::find(uses.begin(), uses.end(), u.use);
    base::expect(use != uses.end(), "unit {} does not hold {}", step.unit, u.use.fqn);
    weights.push_back(&store.weight(unit, static_cast<std::size_t>(use - uses.begin())));
  }
  return weights;
}

}  // namespace

Executor::Executor(const architecture::Architecture& architecture, const model::Model& model,
                   fsdp::ParameterStore& store, optim::Optimizer* optimizer, const mesh::Mesh& mesh,
                   ExecutorOptions options)
    : parts_{.architecture = architecture,
             .model = model,
             .store = store,
             .optimizer = optimizer,
             .mesh = mesh,
             .options = std::move(options),
             .weights = {},
             .norm_groups = {"dense"},
             .counts = {},
             .timeline = {}} {
  const auto units = numbers_of(architecture.units());
  for (const auto& step : architecture.steps()) {
    parts_.weights.push_back(weights_of(step, architecture, units, store));
    parts_.counts.insert(parts_.counts.end(), step.counts.begin(), step.counts.end());
  }
  auto& groups = parts_.norm_groups;
  for (const auto& p : store.parameters())
    if (std::find(groups.begin(), groups.end(), p.placement.norm_group) == groups.end())
      groups.push_back(p.placement.norm_group);
}

StepResult Executor::run(const program::Program& program, StepInputs inputs) {
  executed_.clear();
  return Run(parts_, program, std::move(inputs), executed_).run();
}

}  // namespace tessera::executor

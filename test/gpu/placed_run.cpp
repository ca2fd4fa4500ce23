#include "placed_run.h"

#include <ATen/core/Tensor.h>

#include <utility>

#include "base/log.h"

namespace tessera::test {

namespace {

train::Blueprint blueprint_at(const config::Settings& settings, device::Place place, std::int64_t ranks) {
  base::set_log(base::LogLevel::error, true);
  return train::make_blueprint(settings, ranks, place);
}

}  // namespace

PlacedRun::PlacedRun(const config::Settings& settings, device::Place place,
                     const std::shared_ptr<comm::Communicator>& world,
                     const std::shared_ptr<comm::Communicator>& gpu_world)
    : start_(blueprint_at(settings, place, world->size()), world, nullptr, gpu_world) {}

std::vector<executor::StepResult> PlacedRun::train(std::int64_t steps) {
  auto& assembly = start_.assembly();
  std::vector<executor::StepResult> results;
  for (auto& step : start_.steps(steps)) {
    step.inputs.lr = 0.001;
    results.push_back(assembly.executor().run(assembly.program(program::StepKind::train, step.windows), step.inputs));
  }
  return results;
}

Gradients PlacedRun::first_gradients() {
  auto gradients = test::gradients(start_.assembly(), start_.steps(1).front());
  for (auto& [name, gradient] : gradients.of) gradient = gradient.cpu();
  return gradients;
}

}  // namespace tessera::test

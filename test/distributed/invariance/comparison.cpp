#include "comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "support/catch.h"

namespace tessera::test {
namespace {

double relative(double value, double expected) {
  if (value == expected) return 0;
  const auto deviation = std::abs(value - expected) / std::abs(expected);
  return std::isnan(deviation) ? std::numeric_limits<double>::infinity() : deviation;
}

void update(train::Assembly& assembly, const executor::StepResult& result) {
  assembly.optimizer().step(assembly.blueprint().settings.train.optimizer.lr, result.clip_factor);
}

double largest_of(const TensorsByName& tensors) {
  double largest = 0;
  for (const auto& [fqn, tensor] : tensors) largest = std::max(largest, tensor.abs().max().item<double>());
  return largest;
}

void compare_gradients(train::Assembly& assembly, const TensorsByName& shards, const Reference& reference,
                       std::size_t step, Deviations& deviations) {
  const auto& whole = reference.gradients[step];
  const auto least = reference.least_scale * largest_of(whole);
  for (const auto& p : assembly.store().parameters()) {
    const auto& fqn = p.placement.parameter.fqn;
    const auto& expected = whole.at(fqn);
    if (shards.at(fqn).numel() == 0) continue;
    const auto scale = std::max(least, expected.abs().max().item<double>());
    const auto difference = shards.at(fqn).sub(part_of(expected, p.box)).abs().max().item<double>();
    const auto deviation = relative(scale + difference, scale);
    if (step == 0) deviations.first_gradients = std::max(deviations.first_gradients, deviation);
    if (deviation <= deviations.gradients) continue;
    deviations.gradients = deviation;
    deviations.largest_gradient = fqn + " in step " + std::to_string(step + 1);
  }
}

// The norm of the groups' norms.
double total_of(const std::map<std::string, double>& norms, double p) {
  double largest = 0, sum = 0;
  for (const auto& [group, norm] : norms) largest = std::max(largest, norm);
  if (std::isinf(p) || largest == 0) return largest;
  for (const auto& [group, norm] : norms) sum += std::pow(norm / largest, p);
  return largest * std::pow(sum, 1 / p);
}

void compare_results(const executor::StepResult& result, const executor::StepResult& expected, double norm_type,
                     Deviations& deviations) {
  for (const auto& [value, other] :
       {std::pair{result.cross_entropy, expected.cross_entropy}, std::pair{result.balance_loss, expected.balance_loss},
        std::pair{result.z_loss, expected.z_loss}})
    deviations.losses = std::max(deviations.losses, relative(value, other));
  deviations.norms = std::max(deviations.norms, relative(result.grad_norm, expected.grad_norm));
  deviations.norms = std::max(deviations.norms, relative(total_of(result.group_norms, norm_type), expected.grad_norm));
  deviations.same_load =
      deviations.same_load && result.expert_load == expected.expert_load && result.outcome == expected.outcome;
}

Bytes sent_so_far(train::Assembly& assembly) {
  Bytes bytes;
  const auto traffic = assembly.mesh().traffic();
  for (const auto& id : assembly.blueprint().layout.group_ids())
    if (id != layout::GroupId::world()) bytes[id.name()] = traffic.at(id.name()).bytes_sent;
  return bytes;
}

// Summed over the ranks; groups without bytes are left out.
Bytes over_all_ranks(const Bytes& bytes, const layout::Layout& layout, comm::Communicator& world) {
  Bytes sums;
  for (const auto& id : layout.group_ids()) {
    const auto found = bytes.find(id.name());
    std::int64_t sum = found == bytes.end() ? 0 : found->second;
    world.all_reduce(&sum, 1, comm::ElementType::int64, comm::ReduceOperation::add, nullptr)->wait();
    if (sum > 0) sums[id.name()] = sum;
  }
  return sums;
}

}  // namespace

double Deviations::largest() const {
  return same_load ? std::max({losses, norms, gradients}) : std::numeric_limits<double>::infinity();
}

Reference train_alone(const config::Settings& settings, std::int64_t steps) {
  Start start(settings);
  Reference reference;
  for (const auto& step : start.steps(steps)) {
    auto [result, gradients] = test::gradients(start.assembly(), step);
    update(start.assembly(), result);
    reference.results.push_back(std::move(result));
    reference.gradients.push_back(std::move(gradients));
  }
  return reference;
}

Deviations compare(const config::Settings& settings, const std::shared_ptr<comm::Communicator>& world,
                   const Reference& reference, const Sabotage& sabotage) {
  auto blueprint = blueprint_of(settings, world->size());
  if (sabotage.blueprint) sabotage.blueprint(blueprint);
  Start start(std::move(blueprint), world);
  auto& assembly = start.assembly();
  if (sabotage.assembly) sabotage.assembly(assembly);
  const auto steps = start.steps(static_cast<std::int64_t>(reference.results.size()));
  Deviations deviations;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    auto program = assembly.program(program::StepKind::train, steps[k].windows);
    if (k == 0)
      deviations.planned = over_all_ranks(planned_bytes(assembly.blueprint(), program, steps[k].inputs, world->rank()),
                                          assembly.blueprint().layout, *world);
    if (sabotage.program) sabotage.program(program);
    auto [result, gradients] = test::gradients(assembly, std::move(program), steps[k].inputs);
    if (sabotage.gradients) sabotage.gradients(gradients);
    if (k == 0) deviations.sent = over_all_ranks(sent_so_far(assembly), assembly.blueprint().layout, *world);
    compare_results(result, reference.results[k], settings.train.optimizer.norm_type, deviations);
    compare_gradients(assembly, gradients, reference, k, deviations);
    update(assembly, result);
  }
  return deviations;
}

}  // namespace tessera::test

#include "support/composed_model.h"

#include <ATen/ops/add.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/initial_values.h"

namespace tessera::test {

using architecture::Step;
using architecture::ValueId;
using K = architecture::ValueKind;

ComposedModel::ComposedModel(const architecture::Architecture& architecture, device::Numbers numbers,
                             double router_z_loss_coef, std::vector<const moe::ExpertFunction*> functions)
    : architecture_(architecture), model_(architecture, numbers, router_z_loss_coef, {}, std::move(functions)) {
  for (const base::ParameterSpec& parameter : architecture.parameters()) {
    parameters_[parameter.fqn] = at::zeros(parameter.shape, numbers.compute);
    gradients_[parameter.fqn] = at::zeros(parameter.shape, numbers.master);
  }
  for (const Step& step : architecture.steps()) {
    model::Weights& of_step = weights_of_step_.emplace_back();
    for (const architecture::ParameterUse& use : step.uses) {
      const at::Tensor& value = parameters_.at(use.use.fqn);
      auto weight = std::make_unique<device::Weight>(value.sizes().vec(), numbers.compute, numbers.master);
      weight->bind_value(value.mutable_data_ptr());
      weight->bind_gradient(gradients_.at(use.use.fqn).mutable_data_ptr());
      of_step.push_back(weight.get());
      weights_.push_back(std::move(weight));
    }
  }
}

void ComposedModel::zero_gradients() {
  for (auto& [fqn, gradient] : gradients_) gradient.zero_();
}

model::HeadSums ComposedModel::evaluate(const Batch& batch, const model::StepFacts& facts) {
  return run(batch, facts, Mode::evaluate);
}

model::HeadSums ComposedModel::train(const Batch& batch, const model::StepFacts& facts) {
  const model::HeadSums sums = run(batch, facts, Mode::train);
  backward();
  return sums;
}

at::Tensor ComposedModel::logits() const {
  const c10::AutoGradMode no_gradients(false);
  return model_.logits(architecture_.steps().back(), values_, weights_of_step_.back());
}

model::HeadSums ComposedModel::run(const Batch& batch, const model::StepFacts& facts, Mode mode) {
  tape_.clear();
  values_ = {{{K::ids}, batch.ids},
             {{K::labels}, batch.labels},
             {{K::positions}, batch.positions},
             {{K::attention_starts}, batch.attention_starts},
             {{K::sequence_starts}, batch.sequence_starts}};
  model::HeadSums sums;
  for (const Step& step : architecture_.steps()) {
    if (step.type == Step::Type::segment) {
      if (step.measures_loss) count_balance();
      run_segment(step, mode, facts, sums);
    }
    for (const auto& [from, to] : step.moves) values_[to] = model::delivered(to.kind, values_.at(from), 1);
  }
  return sums;
}

void ComposedModel::run_segment(const Step& step, Mode mode, const model::StepFacts& facts, model::HeadSums& sums) {
  const c10::AutoGradMode gradients(mode == Mode::train);
  const std::size_t index = static_cast<std::size_t>(&step - architecture_.steps().data());
  Ran ran{&step, {}, {}};
  for (const ValueId id : step.reads) {
    const bool leaf = mode == Mode::train && architecture::is_differentiable(id.kind);
    const at::Tensor& value = values_.at(id);
    ran.inputs[id] = leaf ? value.detach().requires_grad_() : value;
  }
  model::Values seen = ran.inputs;
  if (step.measures_loss) {
    sums = model_.run_head(step, seen, weights_of_step_[index], facts);
  } else {
    model_.run(step, seen, weights_of_step_[index]);
    if (fault_) fault_(step, seen);
  }
  for (const ValueId id : step.writes) {
    ran.outputs[id] = seen.at(id);
    values_[id] = seen.at(id).detach();
  }
  if (mode == Mode::train) tape_.push_back(std::move(ran));
}

// Sets the counts that the program's sum over the ranks of a micro-step gives on one rank.
void ComposedModel::count_balance() {
  std::vector<at::Tensor> counts;
  for (std::int32_t layer = 0; layer < architecture_.config().num_hidden_layers; ++layer)
    if (architecture_.config().is_moe_layer(layer)) counts.push_back(value(K::router_count, layer));
  if (!counts.empty()) values_[{K::balance_count}] = at::stack(counts);
}

void ComposedModel::backward() {
  model::Values gradients;
  const ValueId loss{K::loss};
  gradients[loss] = at::ones_like(values_.at(loss));
  const auto& steps = architecture_.steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    for (const auto& [from, to] : step->moves) {
      const auto found = gradients.find(to);
      if (found != gradients.end()) gradients[from] = found->second;
    }
    if (step->type == Step::Type::segment) {
      backward_segment(tape_.back(), gradients);
      tape_.pop_back();
    }
  }
}

void ComposedModel::backward_segment(Ran& ran, model::Values& gradients) {
  std::vector<at::Tensor> outputs, output_gradients;
  for (const auto& [id, output] : ran.outputs) {
    const auto found = gradients.find(id);
    if (found == gradients.end() || !output.requires_grad()) continue;
    outputs.push_back(output);
    output_gradients.push_back(found->second);
  }
  if (outputs.empty()) return;
  torch::autograd::backward(outputs, output_gradients);
  for (const auto& [id, input] : ran.inputs) {
    if (!input.grad().defined()) continue;
    const auto [sum, first] = gradients.try_emplace(id, input.grad());
    if (!first) sum->second = at::add(sum->second, input.grad());
  }
}

Batch batch_of(const model::Values& values) {
  const auto of = [&](K kind) { return values.at({kind, -1}); };
  return {of(K::ids), of(K::labels), of(K::positions), of(K::attention_starts), of(K::sequence_starts)};
}

void fill_initial_values(const architecture::Architecture& architecture, const ComposedModel& model,
                         std::uint64_t seed) {
  for (const base::ParameterSpec& parameter : architecture.parameters())
    model::fill_initial_values(parameter, layout::whole_box(parameter.shape), architecture.initial_of(parameter.fqn),
                               architecture.config().initializer_range, seed, model.parameter(parameter.fqn));
}

}  // namespace tessera::test

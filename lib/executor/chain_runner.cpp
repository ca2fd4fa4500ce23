#include "executor/chain_runner.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>

#include "base/error.h"
#include "device/tensor_device.h"

namespace tessera::executor {

using program::ResourceKind;

Measurements::Measurements(const Parts& parts) {
  const auto at_place = at::TensorOptions(device::tensor_device(parts.options.numbers.place));
  for (auto* sum : {&sums.cross_entropy, &sums.balance, &sums.z}) *sum = at::zeros({}, at_place.dtype(at::kDouble));
  for (std::size_t k = 0; k < parts.counts.size(); ++k)
    load.push_back(at::zeros({parts.architecture.config().num_experts}, at_place.dtype(at::kLong)));
}

std::int32_t Measurements::first_non_finite() const {
  if (finite.empty()) return -1;
  std::vector<at::Tensor> flags;
  for (const auto& [layer, flag] : finite) flags.push_back(flag);
  const auto known = at::stack(flags).cpu();
  for (std::size_t k = 0; k < flags.size(); ++k)
    if (!known.const_data_ptr<bool>()[k]) return finite[k].first;
  return -1;
}

model::Values ChainRunner::inputs_of(const Instruction& i) const {
  model::Values values;
  for (const auto& r : i.reads)
    if (r.kind == ResourceKind::value) values.emplace(r.value, tape_.value(r));
  return values;
}

model::Values ChainRunner::inputs_of(const Instruction& i, Graph& graph) const {
  auto values = inputs_of(i);
  for (auto& [id, value] : values) {
    if (!architecture::is_differentiable(id.kind)) continue;
    graph.inputs.emplace_back(id, std::make_shared<Arrival>());
    value = enter(value, graph.inputs.back().second);
  }
  return values;
}

void ChainRunner::run_steps(const Instruction& i, model::Values& values) const {
  const auto& chain = chain_of(i);
  for (auto k = chain.first; k <= chain.last; ++k) {
    const auto& s = parts_.step(k);
    if (s.type == architecture::Step::Type::segment)
      parts_.model.run(s, values, parts_.weights[static_cast<std::size_t>(k)]);
    if (tape_.checks())
      for (const auto id : s.writes) tape_.check(i.micro, id, values.at(id));
    for (const auto& [from, to] : s.moves) values.insert_or_assign(to, model::delivered(to.kind, values.at(from), 1));
  }
}

model::HeadSums ChainRunner::run_head(const Instruction& i, model::Values& values,
                                      const model::StepFacts& facts) const {
  const auto& chain = chain_of(i);
  base::expect(chain.first == chain.last, "the segment that measures the loss is a chain of its own");
  return parts_.model.run_head(parts_.step(chain.first), values, parts_.weights[static_cast<std::size_t>(chain.first)],
                               facts);
}

void ChainRunner::add_outputs(Graph& graph, const program::Chain& chain, const model::Values& values) {
  for (const auto& v : chain.writes)
    if (architecture::is_differentiable(v.kind) && values.at(v).requires_grad())
      graph.outputs.emplace_back(v, torch::autograd::impl::gradient_edge(values.at(v)));
}

void ChainRunner::note_outputs(const program::Chain& chain, const model::Values& values) {
  for (auto k = chain.first; trains() && k <= chain.last; ++k)
    for (const auto id : parts_.step(k).counts) {
      const auto place = std::ranges::find(parts_.counts, id) - parts_.counts.begin();
      measurements_.load[static_cast<std::size_t>(place)].add_(values.at(id).sum(0));
    }
  auto& finite = measurements_.finite;
  if (!finite.empty() && finite.back().second.is_cpu() && !finite.back().second.item<bool>()) return;
  for (const auto& v : chain.writes) {
    if (!architecture::is_watched(v.kind)) continue;
    // The sum is finite unless an element is not; a sum that overflows costs one exact look.
    auto is_finite = at::isfinite(values.at(v).sum());
    if (is_finite.is_cpu() && !is_finite.item<bool>()) is_finite = at::isfinite(values.at(v)).all();
    finite.emplace_back(std::max(0, parts_.step(chain.first).layer), std::move(is_finite));
  }
}

void ChainRunner::forward(const Instruction& i, const model::StepFacts& facts) {
  const auto& chain = chain_of(i);
  const auto name = program::graph_of(i.micro, i.target);
  const bool keeps_graph = std::find(i.writes.begin(), i.writes.end(), name) != i.writes.end();
  const at::AutoGradMode mode(keeps_graph);
  Graph graph;
  auto values = keeps_graph ? inputs_of(i, graph) : inputs_of(i);
  if (parts_.step(chain.last).measures_loss) {
    measurements_.sums.cross_entropy.add_(run_head(i, values, facts).cross_entropy);
    return;
  }
  run_steps(i, values);
  note_outputs(chain, values);
  if (keeps_graph) {
    add_outputs(graph, chain, values);
    tape_.set_graph(name, std::move(graph));
  }
  for (const auto& r : i.writes)
    if (r.kind == ResourceKind::value) tape_.set_value(r, values.at(r.value).detach());
}

void ChainRunner::recompute(const Instruction& i) {
  const at::AutoGradMode mode(true);
  Graph graph;
  auto values = inputs_of(i, graph);
  run_steps(i, values);
  add_outputs(graph, chain_of(i), values);
  tape_.set_graph(i.writes.front(), std::move(graph));
}

void ChainRunner::take_gradients(const Instruction& i) const {
  for (const auto& r : i.adds)
    if (r.kind == ResourceKind::weight_gradient) parts_.store.take_gradient(static_cast<std::size_t>(r.index));
}

void ChainRunner::add_input_gradients(const Instruction& i, const Graph& graph) {
  for (const auto& [id, arrival] : graph.inputs)
    tape_.add_gradient(program::gradient_of(i.micro, id), arrival->gradient);
}

void ChainRunner::backward(const Instruction& i) {
  take_gradients(i);
  const auto& graph = tape_.graph(program::graph_of(i.micro, i.target));
  torch::autograd::edge_list roots;
  torch::autograd::variable_list gradients;
  for (const auto& [id, edge] : graph.outputs) {
    auto gradient = tape_.gradient(program::gradient_of(i.micro, id));
    if (!gradient.defined()) continue;
    roots.push_back(edge);
    gradients.push_back(std::move(gradient));
  }
  if (!roots.empty())
    torch::autograd::Engine::get_default_engine().execute(roots, gradients, /*keep_graph=*/false,
                                                          /*create_graph=*/false, /*accumulate_grad=*/true);
  add_input_gradients(i, graph);
}

void ChainRunner::forward_backward(const Instruction& i, const model::StepFacts& facts) {
  const at::AutoGradMode mode(true);
  take_gradients(i);
  Graph graph;
  auto values = inputs_of(i, graph);
  const auto sums = run_head(i, values, facts);
  measurements_.sums.cross_entropy.add_(sums.cross_entropy);
  measurements_.sums.balance.add_(sums.balance);
  measurements_.sums.z.add_(sums.z);
  if (sums.loss.requires_grad()) torch::autograd::backward({sums.loss}, {});
  add_input_gradients(i, graph);
}

}  // namespace tessera::executor

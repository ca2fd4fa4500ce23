#include "executor/run.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <new>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "device/tensor_device.h"
#include "fsdp/element_type.h"

namespace tessera::executor {

using architecture::ValueId;
using architecture::ValueKind;
using program::Op;
using program::ResourceKind;
using program::SumKind;

namespace {

// "Forward layers", "Wait Gather", "Sum": what the timeline adds up under one name.
std::string kind_of(const program::Program& program, const program::Instruction& i) {
  std::string kind = i.op == Op::wait ? "Wait " + std::string(name(i.waits_for)) : std::string(name(i.op));
  if (i.op == Op::forward || i.op == Op::backward || i.op == Op::recompute || i.op == Op::forward_backward) {
    const auto& chain = program.chains[static_cast<std::size_t>(i.target)].name;
    kind += " " + chain.substr(0, chain.find_first_of(".["));
  }
  return kind;
}

}  // namespace

Executor::Run::Run(Executor& executor, const program::Program& program, StepInputs inputs)
    : executor_(executor), program_(program), inputs_(std::move(inputs)) {
  base::expect(static_cast<std::int32_t>(inputs_.batches.size()) == program.micro_steps ||
                   program.kind == program::StepKind::skipped,
               "{} batches for {} micro-steps", inputs_.batches.size(), program.micro_steps);
  const auto& config = executor.architecture_.config();
  if (executor.options_.checks_values) checks_.emplace(config, executor.options_.numbers);
  for (std::int32_t layer = 0; layer < config.num_hidden_layers; ++layer)
    if (config.is_moe_layer(layer)) moe_layers_.push_back(layer);
  const auto at_place = at::TensorOptions(device::tensor_device(executor.options_.numbers.place));
  for (auto* sum : {&sums_.cross_entropy, &sums_.balance, &sums_.z}) *sum = at::zeros({}, at_place.dtype(at::kDouble));
  for (std::size_t k = 0; k < moe_layers_.size(); ++k)
    load_.push_back(at::zeros({config.num_experts}, at_place.dtype(at::kLong)));
  for (const auto& input : program.inputs) {
    const auto& batch = inputs_.batches[static_cast<std::size_t>(input.micro)];
    const auto found = batch.find(input.value);
    base::expect(found != batch.end(), "the batch has no {}", architecture::name(input.value));
    store(input, found->second);
  }
}

StepResult Executor::Run::run() {
  const auto measured = executor_.options_.measured;
  double compute_s = 0;
  if (is_on_gpu()) gpu_times_.start();
  for (const auto& i : program_.instructions) {
    auto name = program::describe(program_, i);
    world()->set_label(name);
    const bool is_alone = measured != Measured::together && is_started(i.op);
    if (is_alone) meet(i);
    const auto began = base::seconds_now();
    execute_or_tell(i, name);
    if (is_alone) end_travel(i);
    if (measured != Measured::together && is_on_gpu()) device::Stream::compute().synchronize();
    const auto ended = base::seconds_now();
    free_after(i);
    (is_alone ? communication_s_ : compute_s) += ended - began;
    note_time(i, name, began, ended);
    executor_.executed_.push_back(std::move(name));
    if (ends_early_) break;
  }
  gpu_times_.add_to(executor_.timeline_);
  for (const auto& traced : traced_) add_to_timeline(traced);
  result_.measured_s = measured == Measured::communication_alone ? communication_s_ : compute_s;
  return std::move(result_);
}

void Executor::Run::note_time(const Instruction& i, const std::string& name, double began, double ended) {
  if (is_on_gpu()) return gpu_times_.note(kind_of(program_, i), name);
  executor_.timeline_.add(kind_of(program_, i), ended - began);
  if (executor_.timeline_.records()) executor_.timeline_.add({TimelineEvent::Lane::compute, name, {}, began, ended});
}

void Executor::Run::meet(const Instruction& i) const {
  for (const auto& group : program::groups_of(program_, i)) executor_.mesh_.host(group)->barrier();
}

void Executor::Run::end_travel(const Instruction& i) {
  const auto found = under_way_.find(i.ticket);
  if (found == under_way_.end()) return;
  for (auto& [group, handle] : found->second) {
    handle->wait();
    if (!executor_.timeline_.records()) continue;
    auto name = program::describe(program_, i);
    if (i.op == Op::wait) name.erase(0, std::string_view("Wait ").size());
    Traced traced{std::move(name), group, std::move(handle)};
    if (traced.handle->has_passed())
      add_to_timeline(traced);
    else
      traced_.push_back(std::move(traced));
  }
  under_way_.erase(found);
}

void Executor::Run::add_to_timeline(const Traced& traced) const {
  const auto span = traced.handle->span();
  executor_.timeline_.add({TimelineEvent::Lane::communication, traced.name, traced.group, span.started, span.ended});
}

void Executor::Run::execute_or_tell(const Instruction& i, const std::string& name) {
  const auto tell = [&](const char* what) {
    std::int64_t rows = 0;
    for (const auto& r : i.reads)
      if (r.kind == ResourceKind::value && tape_.value(r).dim() > 0) rows = std::max(rows, tape_.value(r).size(0));
    throw base::Error(base::ExitCode::rank_failed, fmt::format("{} of {} rows: {}", name, rows, what));
  };
  try {
    execute(i);
  } catch (const c10::Error& error) {
    tell(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    tell("out of memory");
  }
}

void Executor::Run::execute(const Instruction& i) {
  switch (i.op) {
    case Op::gather:
    case Op::exchange:
    case Op::reduce:
    case Op::sum: return start(i);
    case Op::wait: return wait(i);
    case Op::forward: return forward(i);
    case Op::backward: return backward(i);
    case Op::recompute: return recompute(i);
    case Op::forward_backward: return forward_backward(i);
    case Op::free: return executor_.store_.free(static_cast<std::size_t>(i.target));
    case Op::clip: return clip();
    case Op::update: return update();
  }
}

void Executor::Run::start(const Instruction& i) {
  const auto unit = static_cast<std::size_t>(i.target);
  if (i.op == Op::gather) {
    under_way_[i.ticket] = executor_.store_.start_gather(unit);
    return;
  }
  if (i.op == Op::reduce) {
    under_way_[i.ticket] = executor_.store_.start_reduce(unit);
    return;
  }
  if (i.op == Op::exchange) return start_exchange(i);
  switch (i.sum) {
    case SumKind::open: return start_open(i);
    case SumKind::counts: return start_counts(i);
    case SumKind::close: return start_close(i);
    case SumKind::replicas: return start_replicas(i);
  }
}

void Executor::Run::wait(const Instruction& i) {
  const auto unit = static_cast<std::size_t>(i.target);
  end_travel(i);
  if (i.waits_for == Op::gather) return;
  if (i.waits_for == Op::reduce) return executor_.store_.give_back_gradient(unit);
  if (i.waits_for == Op::exchange) return finish_exchange(i);
  if (i.sum == SumKind::open) return finish_open();
  if (i.sum == SumKind::counts) return finish_counts(i);
  if (i.sum == SumKind::close) return finish_close();
}

void Executor::Run::free_after(const Instruction& i) {
  for (const auto& r : i.frees) tape_.drop(r);
}

const std::shared_ptr<comm::Communicator>& Executor::Run::world() const { return executor_.mesh_.host("world"); }

comm::Communicator& Executor::Run::group_for(const std::string& group, const at::Tensor& tensor) const {
  return tensor.is_cpu() ? *executor_.mesh_.host(group) : *executor_.mesh_.communicator(group);
}

// ---- chains

model::Values Executor::Run::inputs_of(const Instruction& i) const {
  model::Values values;
  for (const auto& r : i.reads)
    if (r.kind == ResourceKind::value) values.emplace(r.value, tape_.value(r));
  return values;
}

model::Values Executor::Run::inputs_of(const Instruction& i, Graph& graph) const {
  auto values = inputs_of(i);
  for (auto& [id, value] : values) {
    if (!architecture::is_differentiable(id.kind)) continue;
    graph.inputs.emplace_back(id, std::make_shared<Arrival>());
    value = enter(value, graph.inputs.back().second);
  }
  return values;
}

void Executor::Run::run_chain(const program::Chain& chain, model::Values& values) const {
  for (auto k = chain.first; k <= chain.last; ++k) {
    const auto& s = step(k);
    if (s.type == architecture::Step::Type::segment) {
      executor_.model_.run(s, values, executor_.weights_[static_cast<std::size_t>(k)]);
      continue;
    }
    for (const auto& move : s.moves)
      values.insert_or_assign(move.second, model::delivered_alone(move, values.at(move.first)));
  }
}

// Values that no other chain reads are checked too.
void Executor::Run::check_writes(const Instruction& i, const model::Values& values) {
  if (!checks_.has_value()) return;
  const auto& chain = chain_of(i);
  for (auto k = chain.first; k <= chain.last; ++k)
    for (const auto id : step(k).writes) checks_->check(i.micro, id, values.at(id));
}

void Executor::Run::store(const Resource& name, at::Tensor value) {
  if (checks_.has_value()) checks_->check(name.micro, name.value, value);
  tape_.set_value(name, std::move(value));
}

model::HeadSums Executor::Run::run_head(const Instruction& i, model::Values& values) const {
  const auto& chain = chain_of(i);
  base::expect(chain.first == chain.last, "the head is a chain of its own");
  const auto index = static_cast<std::size_t>(chain.first);
  return executor_.model_.run_head(executor_.architecture_.steps()[index], values, executor_.weights_[index],
                                   facts(i.micro));
}

void Executor::Run::add_outputs(Graph& graph, const program::Chain& chain, const model::Values& values) {
  for (const auto& v : chain.writes)
    if (architecture::is_differentiable(v.kind) && values.at(v).requires_grad())
      graph.outputs.emplace_back(v, torch::autograd::impl::gradient_edge(values.at(v)));
}

// Counts the load of experts and remembers which layers' outputs are finite. In the first forward only.
void Executor::Run::note_outputs(const program::Chain& chain, const model::Values& values) {
  for (const auto& [id, value] : values) {
    if (!trains() || id.kind != ValueKind::router_count) continue;
    const auto layer = std::find(moe_layers_.begin(), moe_layers_.end(), id.layer) - moe_layers_.begin();
    load_[static_cast<std::size_t>(layer)].add_(value.sum(0));
  }
  if (!finite_.empty() && finite_.back().second.is_cpu() && !finite_.back().second.item<bool>()) return;
  for (const auto& v : chain.writes) {
    if (v.kind != ValueKind::hidden && v.kind != ValueKind::residual && v.kind != ValueKind::attention_partial)
      continue;
    // The sum is finite unless an element is not; a sum that overflows costs one exact look.
    auto finite = at::isfinite(values.at(v).sum());
    if (finite.is_cpu() && !finite.item<bool>()) finite = at::isfinite(values.at(v)).all();
    finite_.emplace_back(std::max(0, step(chain.first).layer), std::move(finite));
  }
}

void Executor::Run::forward(const Instruction& i) {
  const auto& chain = chain_of(i);
  const Resource name{.kind = ResourceKind::graph, .micro = i.micro, .index = i.target, .value = {}};
  const bool keeps_graph = std::find(i.writes.begin(), i.writes.end(), name) != i.writes.end();
  const at::AutoGradMode mode(keeps_graph);
  Graph graph;
  auto values = keeps_graph ? inputs_of(i, graph) : inputs_of(i);
  if (step(chain.last).segment == architecture::SegmentKind::head &&
      step(chain.last).type == architecture::Step::Type::segment) {
    const auto sums = run_head(i, values);
    sums_.cross_entropy.add_(sums.cross_entropy);
    return;
  }
  run_chain(chain, values);
  check_writes(i, values);
  note_outputs(chain, values);
  if (keeps_graph) {
    add_outputs(graph, chain, values);
    tape_.set_graph(name, std::move(graph));
  }
  for (const auto& r : i.writes)
    if (r.kind == ResourceKind::value) store(r, values.at(r.value).detach());
}

void Executor::Run::recompute(const Instruction& i) {
  const at::AutoGradMode mode(true);
  const auto& chain = chain_of(i);
  Graph graph;
  auto values = inputs_of(i, graph);
  run_chain(chain, values);
  check_writes(i, values);
  add_outputs(graph, chain, values);
  tape_.set_graph(i.writes.front(), std::move(graph));
}

void Executor::Run::take_gradients(const Instruction& i) {
  for (const auto& r : i.adds)
    if (r.kind == ResourceKind::weight_gradient) executor_.store_.take_gradient(static_cast<std::size_t>(r.index));
}

void Executor::Run::add_input_gradients(const Instruction& i, const Graph& graph) {
  for (const auto& [id, arrival] : graph.inputs)
    tape_.add_gradient({.kind = ResourceKind::gradient, .micro = i.micro, .index = -1, .value = id}, arrival->gradient);
}

void Executor::Run::backward(const Instruction& i) {
  take_gradients(i);
  const auto& graph = tape_.graph({.kind = ResourceKind::graph, .micro = i.micro, .index = i.target, .value = {}});
  torch::autograd::edge_list roots;
  torch::autograd::variable_list gradients;
  for (const auto& [id, edge] : graph.outputs) {
    auto gradient = tape_.gradient({.kind = ResourceKind::gradient, .micro = i.micro, .index = -1, .value = id});
    if (!gradient.defined()) continue;
    roots.push_back(edge);
    gradients.push_back(std::move(gradient));
  }
  if (!roots.empty())
    torch::autograd::Engine::get_default_engine().execute(roots, gradients, /*keep_graph=*/false,
                                                          /*create_graph=*/false, /*accumulate_grad=*/true);
  add_input_gradients(i, graph);
}

void Executor::Run::forward_backward(const Instruction& i) {
  const at::AutoGradMode mode(true);
  take_gradients(i);
  Graph graph;
  auto values = inputs_of(i, graph);
  const auto sums = run_head(i, values);
  sums_.cross_entropy.add_(sums.cross_entropy);
  sums_.balance.add_(sums.balance);
  sums_.z.add_(sums.z);
  const auto& loss = values.at({ValueKind::loss, -1});
  if (loss.requires_grad()) torch::autograd::backward({loss}, {});
  add_input_gradients(i, graph);
}

// ---- exchanges

at::Tensor Executor::Run::sent_back(const Resource& name, std::int64_t rows, const ExchangeRows& of) const {
  auto gradient = tape_.gradient(name);
  if (gradient.defined()) return gradient.contiguous();
  auto shape = of.row_shape;
  shape.insert(shape.begin(), rows);
  return at::zeros(shape, at::TensorOptions(of.type).device(device::tensor_device(executor_.options_.numbers.place)));
}

void Executor::Run::start_exchange(const Instruction& i) {
  const auto& group = program_.exchange_groups[static_cast<std::size_t>(i.target)];
  if (group.empty()) return;
  const auto& members = *executor_.mesh_.communicator(group);
  const bool is_forward = i.direction == program::Direction::forward;
  const auto& s = step(i.target);
  const auto named = [&](ResourceKind kind, ValueId id) {
    return Resource{.kind = kind, .micro = i.micro, .index = -1, .value = id};
  };
  const ValueOf value_of = [&](ValueId id) -> const at::Tensor& { return tape_.value(named(ResourceKind::value, id)); };
  for (const auto& [from, to] : s.moves) {
    if (!is_forward && !architecture::is_differentiable(from.kind)) continue;
    auto rows = exchange_rows({from, to}, executor_.architecture_.config(), executor_.model_.owners(),
                              executor_.options_.numbers, members.rank(), members.size(), value_of);
    if (!is_forward) std::swap(rows.send, rows.receive);
    const auto sum = [](const std::vector<std::int64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    };
    auto sent =
        is_forward ? value_of(from).contiguous() : sent_back(named(ResourceKind::gradient, to), sum(rows.send), rows);
    base::expect(sent.scalar_type() == rows.type && sent.size(0) == sum(rows.send), "{} sends {} rows of {}, not {}",
                 s.name(), sent.size(0), architecture::name(from), sum(rows.send));
    auto shape = rows.row_shape;
    const auto row_elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    shape.insert(shape.begin(), sum(rows.receive));
    auto received = at::empty(shape, sent.options().requires_grad(false));
    under_way_[i.ticket].push_back(
        {group, group_for(group, sent)
                    .all_to_all_rows(sent.const_data_ptr(), rows.send, received.mutable_data_ptr(), rows.receive,
                                     row_elements, fsdp::element_type(rows.type),
                                     std::make_shared<std::pair<at::Tensor, at::Tensor>>(sent, received))});
    if (architecture::traits_of(to.kind).dims.size() > architecture::traits_of(from.kind).dims.size())
      received = received.view({members.size(), -1});
    received_[i.ticket].emplace_back(is_forward ? named(ResourceKind::value, to) : named(ResourceKind::gradient, from),
                                     std::move(received));
  }
}

void Executor::Run::finish_exchange(const Instruction& i) {
  const auto arrived = received_.find(i.ticket);
  if (arrived == received_.end()) return pass_on(i);
  for (auto& [name, tensor] : arrived->second) {
    if (name.kind == ResourceKind::value)
      store(name, std::move(tensor));
    else
      tape_.add_gradient(name, tensor);
  }
  received_.erase(arrived);
}

void Executor::Run::pass_on(const Instruction& i) {
  for (const auto& move : step(i.target).moves) {
    const auto& [from, to] = move;
    if (i.direction == program::Direction::forward) {
      const Resource sent{.kind = ResourceKind::value, .micro = i.micro, .index = -1, .value = from};
      store({.kind = ResourceKind::value, .micro = i.micro, .index = -1, .value = to},
            model::delivered_alone(move, tape_.value(sent)));
    } else if (architecture::is_differentiable(from.kind)) {
      tape_.add_gradient({.kind = ResourceKind::gradient, .micro = i.micro, .index = -1, .value = from},
                         tape_.gradient({.kind = ResourceKind::gradient, .micro = i.micro, .index = -1, .value = to}));
    }
  }
}

}  // namespace tessera::executor

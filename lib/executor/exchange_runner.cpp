#include "executor/exchange_runner.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "comm/element_type.h"
#include "device/tensor_device.h"

namespace tessera::executor {

using architecture::ValueId;
using program::gradient_of;
using program::ResourceKind;
using program::value_of;

namespace {

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

at::Tensor ExchangeRunner::sent_back(const Resource& name, std::int64_t rows, const ExchangeRows& of) const {
  auto gradient = tape_.gradient(name);
  if (gradient.defined()) return gradient.contiguous();
  auto shape = of.row_shape;
  shape.insert(shape.begin(), rows);
  return at::zeros(shape, at::TensorOptions(of.type).device(device::tensor_device(parts_.options.numbers.place)));
}

void ExchangeRunner::start(const program::Instruction& i) {
  if (program_.exchange_groups[static_cast<std::size_t>(i.target)].is_alone()) return;
  const auto& s = parts_.step(i.target);
  const auto motion = i.direction == program::Direction::forward ? s.forward : s.backward;
  base::expect(motion == architecture::Motion::rows, "{} cannot travel: only rows are sent", s.name());
  for (const auto& move : s.moves)
    if (i.direction == program::Direction::forward || architecture::is_differentiable(move.first.kind)) send(i, move);
}

void ExchangeRunner::send(const program::Instruction& i, const std::pair<ValueId, ValueId>& move) {
  const auto& [from, to] = move;
  const auto& group = program_.exchange_groups[static_cast<std::size_t>(i.target)];
  const auto& s = parts_.step(i.target);
  const bool is_forward = i.direction == program::Direction::forward;
  auto rows = exchange_rows(move, parts_.architecture.config(), parts_.model.owners().find(s.owned)->second,
                            parts_.options.numbers,
                            [&](ValueId id) -> const at::Tensor& { return tape_.value(value_of(i.micro, id)); });
  if (!is_forward) std::swap(rows.send, rows.receive);
  auto sent = is_forward ? tape_.value(value_of(i.micro, from)).contiguous()
                         : sent_back(gradient_of(i.micro, to), sum(rows.send), rows);
  base::expect(sent.scalar_type() == rows.type && sent.size(0) == sum(rows.send), "{} sends {} rows of {}, not {}",
               s.name(), sent.size(0), architecture::name(from), sum(rows.send));
  auto shape = rows.row_shape;
  const auto row_elements = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  shape.insert(shape.begin(), sum(rows.receive));
  auto received = at::empty(shape, sent.options().requires_grad(false));
  travels_.add(i.ticket,
               {group, parts_.group_for(group, sent)
                           .all_to_all_rows(sent.const_data_ptr(), rows.send, received.mutable_data_ptr(), rows.receive,
                                            row_elements, comm::element_type(rows.type),
                                            std::make_shared<std::pair<at::Tensor, at::Tensor>>(sent, received))});
  if (is_forward) received = model::delivered(to.kind, received, std::ssize(rows.receive));
  received_[i.ticket].emplace_back(is_forward ? value_of(i.micro, to) : gradient_of(i.micro, from),
                                   std::move(received));
}

void ExchangeRunner::finish(const program::Instruction& i) {
  const auto arrived = received_.find(i.ticket);
  if (arrived == received_.end()) return pass_on(i);
  for (auto& [name, tensor] : arrived->second) {
    if (name.kind == ResourceKind::value)
      tape_.set_value(name, std::move(tensor));
    else
      tape_.add_gradient(name, tensor);
  }
  received_.erase(arrived);
}

void ExchangeRunner::pass_on(const program::Instruction& i) {
  for (const auto& move : parts_.step(i.target).moves) {
    const auto& [from, to] = move;
    if (i.direction == program::Direction::forward)
      tape_.set_value(value_of(i.micro, to), model::delivered(to.kind, tape_.value(value_of(i.micro, from)), 1));
    else if (architecture::is_differentiable(from.kind))
      tape_.add_gradient(gradient_of(i.micro, from), tape_.gradient(gradient_of(i.micro, to)));
  }
}

}  // namespace tessera::executor

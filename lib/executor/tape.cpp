#include "executor/tape.h"

#include <ATen/ops/add.h>

#include "base/error.h"

namespace tessera::executor {

using program::ResourceKind;

void Tape::set_value(const program::Resource& name, at::Tensor value) {
  check(name.micro, name.value, value);
  values_.insert_or_assign(name, std::move(value));
}

const at::Tensor& Tape::value(const program::Resource& name) const {
  const auto found = values_.find(name);
  base::expect(found != values_.end(), "no value m{} {}", name.micro, architecture::name(name.value));
  return found->second;
}

void Tape::add_gradient(const program::Resource& name, const at::Tensor& gradient) {
  auto& sum = gradients_[name];
  if (!gradient.defined()) return;
  // Not in place: autograd may have handed the same tensor to another value.
  sum = sum.defined() ? at::add(sum, gradient) : gradient;
}

at::Tensor Tape::gradient(const program::Resource& name) const {
  const auto found = gradients_.find(name);
  return found == gradients_.end() ? at::Tensor() : found->second;
}

void Tape::set_graph(const program::Resource& name, Graph graph) { graphs_.insert_or_assign(name, std::move(graph)); }

const Graph& Tape::graph(const program::Resource& name) const {
  const auto found = graphs_.find(name);
  base::expect(found != graphs_.end(), "no graph of chain {}", name.index);
  return found->second;
}

void Tape::drop(const program::Resource& name) {
  if (name.kind == ResourceKind::value) values_.erase(name);
  if (name.kind == ResourceKind::gradient) gradients_.erase(name);
  if (name.kind == ResourceKind::graph) graphs_.erase(name);
}

}  // namespace tessera::executor

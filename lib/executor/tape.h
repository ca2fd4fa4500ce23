// Values, gradients and graphs of a step, by the names that the program uses for them.
#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/autograd/edge.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "architecture/value.h"
#include "executor/entry.h"
#include "executor/value_checks.h"
#include "model/values.h"
#include "program/program.h"

namespace tessera::executor {

// What the backward of a chain starts from and ends at: where the graph of each differentiable output begins, and the
// gradients that arrive at its inputs. It keeps no value alive but those that its operations saved.
struct Graph {
  std::vector<std::pair<architecture::ValueId, std::shared_ptr<Arrival>>> inputs;
  std::vector<std::pair<architecture::ValueId, torch::autograd::Edge>> outputs;
};

class Tape {
 public:
  Tape() = default;
  // Every value that is set is checked.
  explicit Tape(ValueChecks checks) : checks_(std::move(checks)) {}

  [[nodiscard]] bool checks() const { return checks_.has_value(); }
  // Also for values that no other chain reads: nothing without checks.
  void check(std::int32_t micro, architecture::ValueId id, const at::Tensor& value) {
    if (checks()) checks_->check(micro, id, value);
  }
  void set_value(const program::Resource& name, at::Tensor value);
  [[nodiscard]] const at::Tensor& value(const program::Resource& name) const;
  // Adds to the gradient; an undefined tensor adds nothing.
  void add_gradient(const program::Resource& name, const at::Tensor& gradient);
  // Undefined if none of its readers contributed.
  [[nodiscard]] at::Tensor gradient(const program::Resource& name) const;
  void set_graph(const program::Resource& name, Graph graph);
  [[nodiscard]] const Graph& graph(const program::Resource& name) const;
  // Drops a value, gradient or graph; other resources are not the tape's.
  void drop(const program::Resource& name);
  [[nodiscard]] bool empty() const { return values_.empty() && gradients_.empty() && graphs_.empty(); }

 private:
  std::optional<ValueChecks> checks_;
  std::map<program::Resource, at::Tensor> values_, gradients_;
  std::map<program::Resource, Graph> graphs_;
};

}  // namespace tessera::executor

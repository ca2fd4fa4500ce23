// Stores the values, gradients and graphs of a training step under the names that the program gives them.
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

// The two ends of a chain's graph: the edge at which backward starts for each differentiable output, and the arrivals
// that receive the gradients of its inputs. A graph keeps only those values alive that its operations saved.
struct Graph {
  std::vector<std::pair<architecture::ValueId, std::shared_ptr<Arrival>>> inputs;
  std::vector<std::pair<architecture::ValueId, torch::autograd::Edge>> outputs;
};

class Tape {
 public:
  Tape() = default;
  // Checks every value that is set.
  explicit Tape(ValueChecks checks) : checks_(std::move(checks)) {}

  [[nodiscard]] bool checks() const { return checks_.has_value(); }
  // Checks a value that is not set because no other chain reads it. Does nothing without checks.
  void check(std::int32_t micro, architecture::ValueId id, const at::Tensor& value) {
    if (checks()) checks_->check(micro, id, value);
  }
  void set_value(const program::Resource& name, at::Tensor value);
  [[nodiscard]] const at::Tensor& value(const program::Resource& name) const;
  // Adds `gradient` to the gradient of the value; an undefined tensor adds nothing.
  void add_gradient(const program::Resource& name, const at::Tensor& gradient);
  // Returns the sum of what the value's readers added; undefined if none did.
  [[nodiscard]] at::Tensor gradient(const program::Resource& name) const;
  void set_graph(const program::Resource& name, Graph graph);
  [[nodiscard]] const Graph& graph(const program::Resource& name) const;
  // Drops a value, gradient or graph. Ignores resources of other kinds, which the tape does not store.
  void drop(const program::Resource& name);
  [[nodiscard]] bool empty() const { return values_.empty() && gradients_.empty() && graphs_.empty(); }

 private:
  std::optional<ValueChecks> checks_;
  std::map<program::Resource, at::Tensor> values_, gradients_;
  std::map<program::Resource, Graph> graphs_;
};

}  // namespace tessera::executor

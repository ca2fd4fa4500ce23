// The plain single-process model: runs the steps one after another, with exchanges as identities and parameters in
// plain memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "architecture/architecture.h"
#include "device/numbers.h"
#include "device/weight.h"
#include "model/model.h"

namespace tessera::test {

struct Batch {
  at::Tensor ids;               // [T] int64
  at::Tensor labels;            // [T] int64
  at::Tensor positions;         // [T] int64
  at::Tensor attention_starts;  // [documents + 1] int64
  at::Tensor sequence_starts;   // [sequences + 1] int64
};

constexpr device::Numbers all_float64{at::kDouble, at::kDouble, at::kDouble};

// Returns the five values of a batch, found by name.
[[nodiscard]] Batch batch_of(const model::Values& values);

class ComposedModel {
 public:
  // Parameters and gradients are zero. `architecture` must outlive this. `functions` of experts are known beside the
  // built-in ones.
  ComposedModel(const architecture::Architecture& architecture, device::Numbers numbers, double router_z_loss_coef = 0,
                std::vector<const moe::ExpertFunction*> functions = {});

  // The memory of a parameter, in the compute type (tests write into it), and of its gradient, in the master type.
  [[nodiscard]] const at::Tensor& parameter(const std::string& fqn) const { return parameters_.at(fqn); }
  [[nodiscard]] const at::Tensor& gradient(const std::string& fqn) const { return gradients_.at(fqn); }
  void zero_gradients();

  // Called after every segment but the head, under autograd, with the values that the segment read and wrote. It may
  // replace those that were written.
  using Fault = std::function<void(const architecture::Step& step, model::Values& values)>;
  void set_fault(Fault fault) { fault_ = std::move(fault); }

  // Forward only; values() holds every value afterwards.
  model::HeadSums evaluate(const Batch& batch, const model::StepFacts& facts);
  // Forward and backward, as the executor does it: each segment sees exactly the values that its step lists, detached,
  // and runs under its own autograd; gradients of a value's readers are summed. Adds to the gradients.
  model::HeadSums train(const Batch& batch, const model::StepFacts& facts);

  [[nodiscard]] const model::Values& values() const { return values_; }
  [[nodiscard]] const at::Tensor& value(architecture::ValueKind kind, std::int32_t layer = -1) const {
    return values_.at({kind, layer});
  }
  // Logits of the last run's hidden rows: [T, vocabulary].
  [[nodiscard]] at::Tensor logits() const;

 private:
  struct Ran {  // a segment that has run under autograd
    const architecture::Step* step;
    model::Values inputs;   // leaves
    model::Values outputs;  // with graph
  };
  enum class Mode { evaluate, train };

  model::HeadSums run(const Batch& batch, const model::StepFacts& facts, Mode mode);
  void run_segment(const architecture::Step& step, Mode mode, const model::StepFacts& facts, model::HeadSums& sums);
  void count_balance();
  void backward();
  void backward_segment(Ran& ran, model::Values& gradients);

  const architecture::Architecture& architecture_;
  model::Model model_;
  std::map<std::string, at::Tensor> parameters_, gradients_;
  std::vector<std::unique_ptr<device::Weight>> weights_;
  std::vector<model::Weights> weights_of_step_;  // in the order of the steps
  model::Values values_;
  std::vector<Ran> tape_;
  Fault fault_;
};

// Sets every parameter to the initial values with which a run with `seed` begins.
void fill_initial_values(const architecture::Architecture& architecture, const ComposedModel& model,
                         std::uint64_t seed);

}  // namespace tessera::test

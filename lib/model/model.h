// The segments of a model as computations on named values. No communication, no module objects.
//
// blocks/ has the kernels of each block of lib/architecture/blocks/ in a file of the same name. Source of the maths:
// transformers, models/qwen3_moe/modeling_qwen3_moe.py (5.24), checked against fixtures in test/oracle.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ATen/core/Tensor.h"
#include "architecture/architecture.h"
#include "device/numbers.h"
#include "model/segment.h"
#include "moe/expert_function.h"
#include "ops/grouped_product.h"

namespace tessera::model {

struct Context;
struct Kernel;

class Model {
 public:
  // Throws std::logic_error if a segment of `architecture`, or the function of its experts, has no kernel. `functions`
  // are known beside the built-in ones.
  Model(const architecture::Architecture& architecture, device::Numbers numbers, double router_z_loss_coef,
        Owners owners, std::vector<const moe::ExpertFunction*> functions = {});
  ~Model();
  Model(Model&&) noexcept;

  // Computes `step` (a segment other than the head), reading its reads from `values` and adding its writes. Kept values
  // (slots, counts) that are already there are used instead of being computed again (recomputation). Under autograd the
  // outputs carry a graph to the differentiable inputs and, through the weights' products, into the weights' gradient
  // buffers.
  void run(const architecture::Step& step, Values& values, const Weights& weights) const;

  // Computes the head: adds `loss` to `values` and returns it (to call backward on, with gradient 1) with the sums.
  // Under autograd the gradient of the head's weights is added to their buffers and that of hidden kept for backward,
  // in one pass over chunks of tokens. A balance or z share is formed, and its values read, only if its scale is not
  // zero.
  HeadSums run_head(const architecture::Step& step, Values& values, const Weights& weights,
                    const StepFacts& facts) const;

  // Those given, and one owner for each other parameter that a step names as `owned`.
  [[nodiscard]] const Owners& owners() const;
  // Which way the experts' products take, for the log.
  [[nodiscard]] ops::GroupedPath expert_path() const;

  // Returns the logits of all tokens [tokens, vocabulary], in the wide type, for tests and tools that need them whole.
  [[nodiscard]] at::Tensor logits(const architecture::Step& head, const Values& values, const Weights& weights) const;

 private:
  std::unique_ptr<const Context> context_;
  std::map<std::string_view, const Kernel*> kernels_;  // by the kind of a segment
};

}  // namespace tessera::model

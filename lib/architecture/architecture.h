// A model as data: its parameters, its steps (segments and the exchanges between them), and which parameters travel
// together.
//
// Its steps are the finest cut of the model. Composed without exchanges the segments are the plain single-process
// model. Nothing here computes: `model` runs segments, `program` orders them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "architecture/block.h"
#include "architecture/cost.h"
#include "architecture/model_config.h"
#include "architecture/value.h"
#include "base/parameter_spec.h"
#include "config/settings.h"
#include "plan/unit.h"

namespace tessera::architecture {

// The cost of a step: that of its products, and bytes in float32.
struct StepCost {
  double forward_flops = 0;          // 2 x multiply-adds
  double backward_input_flops = 0;   // for the gradients of its inputs
  double backward_weight_flops = 0;  // for the gradients of its weights
  double kept_bytes = 0;             // kept for backward, the inputs included
  double written_bytes = 0;          // its differentiable outputs, of an exchange what it delivers
};

class Architecture {
 public:
  Architecture(ModelConfig config, config::BalanceLoss balance);

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] config::BalanceLoss balance() const { return balance_; }
  // Every parameter once, in HuggingFace's order of modules; a tied head is no parameter of its own.
  [[nodiscard]] const std::vector<base::ParameterSpec>& parameters() const { return parameters_; }
  // Returns a parameter's shape, or how it begins. Precondition: the model has the parameter.
  [[nodiscard]] const std::vector<std::int64_t>& shape_of(std::string_view fqn) const;
  [[nodiscard]] Initial initial_of(std::string_view fqn) const;
  // Steps in forward order: embedding, layers, head.
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  // "embed", per layer "layers.<i>.attention" (attention, norms, router; also a dense layer's MLP) and
  // "layers.<i>.experts", "head" (final norm and head; a tied head uses the embedding whole here).
  [[nodiscard]] const std::vector<plan::Unit>& units() const { return units_; }
  // The sum of all counts of a micro-step over its ranks, as the last segment reads it; nothing if it reads none.
  [[nodiscard]] std::optional<ValueId> summed_counts() const;
  [[nodiscard]] std::int64_t total_parameters() const;
  // The number of parameters that one token meets: of the experts only the chosen ones.
  [[nodiscard]] std::int64_t active_parameters() const { return active_parameters_; }
  [[nodiscard]] StepCost cost(const Step& step, const MicroBatchSizes& sizes) const;
  // "Qwen3-MoE, 4 layers (3 with experts), hidden 128, 8 experts (2 per token), vocabulary 257".
  [[nodiscard]] std::string describe() const;

 private:
  [[nodiscard]] std::size_t number_of(std::string_view fqn) const;
  Architecture(ModelConfig config, config::BalanceLoss balance, Block model);

  ModelConfig config_;
  config::BalanceLoss balance_;
  std::vector<base::ParameterSpec> parameters_;
  std::vector<Initial> initial_;  // by parameter
  std::int64_t active_parameters_ = 0;
  std::vector<Step> steps_;
  std::vector<plan::Unit> units_;
};

// The uses of `steps` by unit, units and uses in the order of their first appearance.
[[nodiscard]] std::vector<plan::Unit> units_of(const std::vector<Step>& steps);

}  // namespace tessera::architecture

// The choice of the parameters that weight decay applies to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/parameter_spec.h"

namespace tessera::optim {

enum class WeightDecay : std::uint8_t { applied, none };

// Every trainable parameter is in exactly one of two groups.
struct DecayGroups {
  std::map<std::string, WeightDecay> of;  // FQN -> group
  std::int64_t decayed_parameters = 0, other_parameters = 0;
  std::int64_t decayed_elements = 0, other_elements = 0;

  // Returns "weight decay 0.1 on 12 parameters (3.20M elements), none on 9 (1.05k)".
  [[nodiscard]] std::string describe(double weight_decay) const;
};

// Applies weight decay to matrices and stacks of matrices, among them embedding, head, router and experts. Excludes
// parameters of one dim (norms, biases) and those that a pattern of `no_decay_params` matches. A pattern with a dot is
// matched against the whole FQN, as in parallel plans (`model.layers.*.mlp.gate.weight`); one without a dot is matched
// against each component (`embed_tokens`, `bias`). Reports patterns that match no parameter.
[[nodiscard]] DecayGroups group_by_decay(const std::vector<base::ParameterSpec>& parameters,
                                         const std::vector<std::string>& no_decay_params, base::Problems& problems);

}  // namespace tessera::optim

// Name and shape of a parameter of the model, for code without LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace tessera::base {

// HuggingFace's fused form stores several stacks of experts as one tensor: the parts of each expert one after the other
// along dim 1, as [E, 2I, H] of two [E, I, H].
struct FusedPart {
  std::string tensor;  // its FQN: model.layers.3.mlp.experts.gate_up_proj
  std::int64_t part = 0;
  std::int64_t parts = 1;
};

// Two are equal if they have the same name and shape.
struct ParameterSpec {
  std::string fqn;                      // HuggingFace style: model.layers.3.mlp.experts.down_proj
  std::vector<std::int64_t> shape;      // global shape
  std::optional<FusedPart> fused = {};  // of a stack of experts that the fused form joins with others

  friend bool operator==(const ParameterSpec& a, const ParameterSpec& b) {
    return a.fqn == b.fqn && a.shape == b.shape;
  }
};

// The number of elements of the whole parameter.
[[nodiscard]] inline std::int64_t elements(const ParameterSpec& spec) {
  return std::accumulate(spec.shape.begin(), spec.shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace tessera::base

// Name and shape of a parameter of the model, for code without LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace tessera::base {

struct ParameterSpec {
  std::string fqn;                  // HuggingFace style: model.layers.3.mlp.experts.down_proj
  std::vector<std::int64_t> shape;  // global shape

  friend bool operator==(const ParameterSpec&, const ParameterSpec&) = default;
};

// The number of elements of the whole parameter.
[[nodiscard]] inline std::int64_t elements(const ParameterSpec& spec) {
  return std::accumulate(spec.shape.begin(), spec.shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace tessera::base

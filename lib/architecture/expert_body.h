// The body of an expert as data: its matrices, and the elementwise function between them.
//
//   result = out (f(into_1 x + bias_1, into_2 x + bias_2, ...)) + out_bias
//
// The function's kernels, forward and backward, stand in lib/moe under the body's name.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "architecture/block.h"
#include "architecture/value.h"

namespace tessera::architecture {

struct ExpertMatrix {
  // into: its product with a slot's row, into_bias added, is an input of the function. out: it is multiplied by the
  // function's result, and out_bias added. Inputs and their biases have the order of the matrices.
  enum class Use : std::uint8_t { into, into_bias, out, out_bias };
  std::string_view name;  // of a layer's parameter: "mlp.experts.gate_proj"
  Use use{};
  Dims shape;  // dim 0 is Dim::experts
  Initial initial = Initial::normal;
};

struct ExpertBody {
  std::string_view name;               // "swiglu"
  std::vector<ExpertMatrix> matrices;  // in HuggingFace's order
  // HuggingFace's fused form stores these matrices as one tensor of this name; empty: it has none.
  std::string_view fused_name;
  std::vector<std::string_view> fused;
};

// silu(gate x) * (up x) between gate, up and down.
[[nodiscard]] const ExpertBody& swiglu_body();

}  // namespace tessera::architecture

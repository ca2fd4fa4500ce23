// The feed-forward network of a layer without experts: residual, norm, SwiGLU, residual.
#pragma once

#include <string>
#include <string_view>

#include "architecture/block.h"

namespace tessera::architecture::dense_mlp {

inline constexpr std::string_view segment = "dense";
// Parameters of a layer: gain [hidden], gate and up [intermediate, hidden], down [hidden, intermediate].
inline constexpr std::string_view norm = "post_attention_layernorm.weight", gate = "mlp.gate_proj.weight",
                                  up = "mlp.up_proj.weight", down = "mlp.down_proj.weight";

[[nodiscard]] Block block(const ModelConfig& config, std::int64_t layer, const std::string& unit);

}  // namespace tessera::architecture::dense_mlp

// The router of a layer with experts: residual, norm, the choice of experts as slots, and the statistics of the balance
// losses.
#pragma once

#include <string>
#include <string_view>

#include "architecture/block.h"

namespace tessera::architecture::router {

inline constexpr std::string_view route = "route";
// Parameters of a layer: gain [hidden], router [experts, hidden].
inline constexpr std::string_view norm = "post_attention_layernorm.weight", weight = "mlp.gate.weight";

[[nodiscard]] Block block(const ModelConfig& config, std::int64_t layer, const std::string& unit);

}  // namespace tessera::architecture::router

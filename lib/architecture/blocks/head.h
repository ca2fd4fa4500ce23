// The head: final norm, logits, cross entropy, and the losses of the routers.
#pragma once

#include <string>
#include <string_view>

#include "architecture/block.h"
#include "config/settings.h"

namespace tessera::architecture::head {

inline constexpr std::string_view segment = "head";
// Parameters: gain [hidden], head [vocabulary, hidden].
inline constexpr std::string_view norm = "model.norm.weight", weight = "lm_head.weight";

// Reads the statistics of every layer with experts, and of the counts those that `balance` needs. With
// tie_word_embeddings its weight is the embedding.
[[nodiscard]] Block block(const ModelConfig& config, config::BalanceLoss balance, const std::string& unit);

}  // namespace tessera::architecture::head

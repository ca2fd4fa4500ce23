// The steps of a model and the units that their uses form.
#pragma once

#include <vector>

#include "architecture/architecture.h"

namespace tessera::architecture {

// Every step of `config` in forward order. `balance` decides which counts the head reads: `router_count` of every layer
// (sequence), or the `balance_count` of the micro-step.
[[nodiscard]] std::vector<Step> steps_of(const ModelConfig& config, config::BalanceLoss balance);

// The uses of `steps` by unit, units and uses in the order of their first appearance.
[[nodiscard]] std::vector<plan::Unit> units_of(const std::vector<Step>& steps);

}  // namespace tessera::architecture

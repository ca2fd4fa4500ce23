// The experts of a layer: rows go to the owners of their experts, pass through them, and come back.
#pragma once

#include <string>
#include <string_view>

#include "architecture/block.h"
#include "architecture/expert_body.h"

namespace tessera::architecture::experts {

// Segments and exchanges.
inline constexpr std::string_view pack = "pack", row_counts = "row_counts", dispatch = "dispatch", experts = "experts",
                                  combine = "combine", merge = "merge";

// `body` must outlive the block. Its first matrix decides which rank owns an expert.
[[nodiscard]] Block block(const ModelConfig& config, std::int64_t layer, const ExpertBody& body,
                          const std::string& unit);

}  // namespace tessera::architecture::experts

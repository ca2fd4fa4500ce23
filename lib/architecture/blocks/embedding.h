// The embedding: each token's id becomes a row of `hidden`, fetched from the rank that owns the id.
#pragma once

#include <string>
#include <string_view>

#include "architecture/block.h"

namespace tessera::architecture::embedding {

// Segments and exchanges.
inline constexpr std::string_view distinct_ids = "distinct_ids", id_counts = "id_counts",
                                  ids_to_owners = "ids_to_owners", lookup = "lookup",
                                  rows_from_owners = "rows_from_owners", expand = "expand";
// The parameter: [vocabulary, hidden].
inline constexpr std::string_view weight = "model.embed_tokens.weight";

// `expand` also writes the rotary tables of the tokens' positions, which the attention of every layer reads.
[[nodiscard]] Block block(const ModelConfig& config, const std::string& unit);

}  // namespace tessera::architecture::embedding

// The values of one micro-batch by name, and what the parts of a step that know no value by its name ask of them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ATen/core/Tensor.h"
#include "architecture/value.h"

namespace tessera::model {

using Values = std::map<architecture::ValueId, at::Tensor>;

// Returns the batch of a micro-step by the names that the segments read it by. attention_starts and sequence_starts are
// bounds.
[[nodiscard]] Values batch_values(at::Tensor ids, at::Tensor labels, at::Tensor positions,
                                  const std::vector<std::int64_t>& attention_starts,
                                  const std::vector<std::int64_t>& sequence_starts);

struct BatchCounts {
  std::int64_t valid_tokens = 0;  // those with a target
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
};
[[nodiscard]] BatchCounts counts_of(const Values& batch);

// Returns what `sources` ranks have sent of a move (from, to) of an exchange, in the shape of `to`: counts that travel
// flat are [sources, own experts] there.
[[nodiscard]] at::Tensor delivered(architecture::ValueKind to, const at::Tensor& sent, std::int64_t sources);

}  // namespace tessera::model

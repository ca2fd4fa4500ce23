// Computes how many rows an exchange moves to and from each rank of its group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "architecture/architecture.h"
#include "device/numbers.h"
#include "model/model.h"

namespace tessera::executor {

// The rows of one moved value, the shape of a row, and the type of its elements.
struct ExchangeRows {
  std::vector<std::int64_t> send,
      receive;  // by rank of the group, in the forward direction; backward they change places
  std::vector<std::int64_t> row_shape;
  at::ScalarType type{};
};

// Returns a value. Those that say how much travels are among the reads of the model step, and in the host's memory.
using ValueOf = std::function<const at::Tensor&(architecture::ValueId)>;

// Returns the rows of a move (from, to) of an exchange between the owners of `blocks`. The splits of the first dims of
// both among the owners say how much travels; the further dims of `from` are those of a row.
[[nodiscard]] ExchangeRows exchange_rows(const std::pair<architecture::ValueId, architecture::ValueId>& move,
                                         const architecture::ModelConfig& config, const model::OwnedBlocks& blocks,
                                         const device::Numbers& numbers, const ValueOf& value_of);

}  // namespace tessera::executor

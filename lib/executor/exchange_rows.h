// How much each exchange moves, and between whom.
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

// One moved value: rows to and from each rank of the group, the shape of a row, and the type of its elements.
struct ExchangeRows {
  std::vector<std::int64_t> send, receive;  // forward; backward the other way round
  std::vector<std::int64_t> row_shape;
  at::ScalarType type{};
};

// The values that say how much travels are among the step's `reads`, and in the host's memory.
using ValueOf = std::function<const at::Tensor&(architecture::ValueId)>;

// For a move (from, to) of an exchange between the owners of `blocks`. How the first dims of both are split among the
// owners says how much travels; the further dims of `from` are a row's.
[[nodiscard]] ExchangeRows exchange_rows(const std::pair<architecture::ValueId, architecture::ValueId>& move,
                                         const architecture::ModelConfig& config, const model::OwnedBlocks& blocks,
                                         const device::Numbers& numbers, const ValueOf& value_of);

}  // namespace tessera::executor

// How much each exchange moves, and between whom.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "architecture/architecture.h"
#include "device/numbers.h"
#include "model/qwen3_moe.h"

namespace tessera::executor {

// One moved value: rows to and from each rank of the group, the shape of a row, and the type of its elements.
struct ExchangeRows {
  std::vector<std::int64_t> send, receive;  // forward; backward the other way round
  std::vector<std::int64_t> row_shape;
  at::ScalarType type{};
};

// What says how much travels: the step's `reads`, [ranks] or [ranks, local experts] int64 on the CPU.
using ValueOf = std::function<const at::Tensor&(architecture::ValueId)>;

// Of the move of `from` by exchange `step`, as rank `rank` of the `ranks` owners. Counts travel one to each rank, of
// experts as many as the rank owns.
[[nodiscard]] ExchangeRows exchange_rows(const architecture::Step& step, architecture::ValueKind from,
                                         const architecture::ModelConfig& config, const model::Owners& owners,
                                         const device::Numbers& numbers, std::int64_t rank, std::int64_t ranks,
                                         const ValueOf& value_of);

}  // namespace tessera::executor

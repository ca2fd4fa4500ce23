// Sums (or maxima) over ranks of elements that have come to one of them, in the order of the ranks: the arithmetic of
// comm/reduction.h, element by element, with the same bits, for the GPU and the CPU.
#pragma once

#include <cstdint>

#include "comm/element_values.h"
#include "comm/piece_sum.h"

namespace tessera::comm {

// `rows` x `row_elements` elements: this rank's own, in rows own_stride apart, and those of the other ranks, rank k's
// packed from received + k * rows * row_elements elements on (this rank's place there is not read). Their total goes to
// `target`, of the same shape, as piece_sum.h says: added, it has total_type(type); stored, `type`. `target` may be
// `own` if it is stored.
struct RankOrderSum {
  ElementType type{};
  ReduceOperation operation = ReduceOperation::add;
  TotalGoes total_goes = TotalGoes::added;
  std::int64_t rows = 0, row_elements = 0;
  const void* own = nullptr;
  std::int64_t own_stride = 0;  // elements; here and below
  const void* received = nullptr;
  void* target = nullptr;
  std::int64_t target_stride = 0;
  std::int64_t rank = 0, ranks = 1;
};

namespace rank_order {

using device::narrow;
using device::widened;

// The element at (row, column).
template <class Value, class Total>
TESSERA_HOST_AND_GPU void sum_element(const RankOrderSum& sum, std::int64_t row, std::int64_t column) {
  const auto* own = static_cast<const Value*>(sum.own) + row * sum.own_stride + column;
  const auto* received = static_cast<const Value*>(sum.received);
  const std::int64_t packed = row * sum.row_elements + column, piece = sum.rows * sum.row_elements;
  Total total{};
  for (std::int64_t k = 0; k < sum.ranks; ++k) {
    const Total value = widened(k == sum.rank ? *own : received[k * piece + packed]);
    if (k == 0)
      total = value;
    else
      total = sum.operation == ReduceOperation::add ? static_cast<Total>(total + value) : larger(total, value);
  }
  const std::int64_t at = row * sum.target_stride + column;
  if (sum.total_goes == TotalGoes::added)
    static_cast<Total*>(sum.target)[at] += total;
  else
    narrow(total, static_cast<Value*>(sum.target)[at]);
}

}  // namespace rank_order

}  // namespace tessera::comm

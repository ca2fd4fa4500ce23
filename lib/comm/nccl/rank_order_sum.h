// Sums (or maxima) over ranks, in rank order, of elements that one rank has received from the others. It gives the same
// bits as comm/reduction.h, element by element, on the GPU and the CPU.
#pragma once

#include <cstdint>

#include "comm/element_values.h"
#include "comm/piece_sum.h"

namespace tessera::comm {

// Sums `rows` x `row_elements` elements. This rank's own values lie at `own`, in rows own_stride apart. Those of rank k
// lie packed at received + k * rows * row_elements elements; this rank's place there is not read. The total goes to
// `target`, which has the same shape: its elements have total_type(type) where the total is added, `type` where it is
// stored (see piece_sum.h). `target` may be `own` if the total is stored.
struct RankOrderSum {
  ElementType type{};
  ReduceOperation operation = ReduceOperation::add;
  TotalGoes total_goes = TotalGoes::added;
  std::int64_t rows = 0, row_elements = 0;
  const void* own = nullptr;
  std::int64_t own_stride = 0;  // in elements, like target_stride
  const void* received = nullptr;
  void* target = nullptr;
  std::int64_t target_stride = 0;
  std::int64_t rank = 0, ranks = 1;
};

namespace rank_order {

using device::narrow;
using device::widened;

// Sums the elements at (row, column).
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

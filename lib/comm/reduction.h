// The arithmetic of sums and maxima over ranks, on consecutive elements. Values are combined in the order of the calls,
// element by element: the same calls give the same bits.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace tessera::comm {

// The type in which values of `type` are combined: float32 for bfloat16, else `type` itself.
[[nodiscard]] ElementType total_type(ElementType type);

// total = values. Here and below: `values` have `type`, `total` has total_type(type), and neither overlaps the other.
void start_total(void* total, const void* values, std::int64_t elements, ElementType type);

// total = total + values, or the larger of both. A maximum with a NaN is a NaN.
void combine(void* total, const void* values, std::int64_t elements, ElementType type, ReduceOperation operation);

// to = total combined with values: the same bits, without a copy of `total` first. `to` is no other array.
void combine_into(void* to, const void* total, const void* values, std::int64_t elements, ElementType type,
                  ReduceOperation operation);

// sum = sum + (total combined with values), where `sum` has total_type(type) too.
void add_combined(void* sum, const void* total, const void* values, std::int64_t elements, ElementType type,
                  ReduceOperation operation);

// values = total; to bfloat16 rounded to the nearest, ties to even.
void store_total(void* values, const void* total, std::int64_t elements, ElementType type);

// sum = sum + total, where `sum` has total_type(type) too.
void add_total(void* sum, const void* total, std::int64_t elements, ElementType type);

}  // namespace tessera::comm

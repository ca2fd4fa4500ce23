// The arithmetic of sums and maxima over ranks, on arrays of consecutive elements. Each call combines element by
// element, so the same calls in the same order give the same bits.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace tessera::comm {

// Returns the type in which values of `type` are combined: float32 for bfloat16, else `type` itself.
[[nodiscard]] ElementType total_type(ElementType type);

// total = values. Here and below, `values` has elements of `type` and `total` has elements of total_type(type); no two
// arrays overlap.
void start_total(void* total, const void* values, std::int64_t elements, ElementType type);

// total = total + values, or max(total, values). The maximum of a NaN and any value is NaN.
void combine(void* total, const void* values, std::int64_t elements, ElementType type, ReduceOperation operation);

// to = total combined with values: the bits of combine(), without copying `total` first.
void combine_into(void* to, const void* total, const void* values, std::int64_t elements, ElementType type,
                  ReduceOperation operation);

// sum = sum + (total combined with values), where `sum` has total_type(type) too.
void add_combined(void* sum, const void* total, const void* values, std::int64_t elements, ElementType type,
                  ReduceOperation operation);

// values = total; bfloat16 is rounded to nearest, ties to even.
void store_total(void* values, const void* total, std::int64_t elements, ElementType type);

// sum = sum + total, where `sum` has total_type(type) too.
void add_total(void* sum, const void* total, std::int64_t elements, ElementType type);

}  // namespace tessera::comm

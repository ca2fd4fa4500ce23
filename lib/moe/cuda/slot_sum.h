// Un-permutation: sums each row's slots in slot order, in float32, and rounds once. Compiles for the GPU and the CPU;
// the bits are those of ops::add_rows.
#pragma once

#include <cstdint>

#include "moe/cuda/lanes.h"

namespace tessera::moe::cuda {

// All arrays but `slot` and `first` are contiguous and aligned as their elements are.
struct SlotSum {
  FloatType value_type{}, result_type{};  // float32 to either, or bfloat16 to bfloat16
  std::int64_t rows = 0, columns = 0;
  const void* values = nullptr;         // [slots, columns]
  const void* second_values = nullptr;  // likewise, or null: a slot's value is the sum of both
  const std::int64_t* slot = nullptr;   // [slots]: those of row 0 in ascending order, of row 1, ...
  const std::int64_t* first = nullptr;  // [rows + 1]: row r has slot[first[r]] to slot[first[r + 1] - 1]
  const void* addend = nullptr;         // [rows, columns] of the result's type, with which sums begin; or null
  void* result = nullptr;               // [rows, columns]
};

enum class Values : std::uint8_t { one, two };

// Computes the part of a row that belongs to one lane.
template <class Value, class Result, int width, Values values>
TESSERA_HOST_AND_GPU void sum_slots(const SlotSum& sum, std::int64_t row, int lane) {
  const auto *value = static_cast<const Value*>(sum.values), *second = static_cast<const Value*>(sum.second_values);
  const auto begin = sum.first[row], end = sum.first[row + 1];
  for (std::int64_t column = lane * width; column < sum.columns; column += lanes * width) {
    const auto place = row * sum.columns + column;
    float total[width] = {};
    if (sum.addend != nullptr) load<width>(static_cast<const Result*>(sum.addend) + place, total);
    for (auto i = begin; i < end; ++i) {
      const auto at = sum.slot[i] * sum.columns + column;
      float added[width];
      load<width>(value + at, added);
      if constexpr (values == Values::two) {
        float other[width];
        load<width>(second + at, other);
        for (int k = 0; k < width; ++k) added[k] += other[k];
      }
      for (int k = 0; k < width; ++k) total[k] += added[k];
    }
    store<width>(total, static_cast<Result*>(sum.result) + place);
  }
}

// Calls body.template operator()<Value, Result, width, values>() with the arguments that fit `sum`.
template <class Body>
void with_variant(const SlotSum& sum, const Body& body) {
  const auto of_types = [&]<class Value, class Result>(Value, Result) {
    constexpr int most = vector_width<Value>;
    const bool wide = fit_vectors(sum.columns, most,
                                  {{sum.values, sizeof(Value)},
                                   {sum.second_values, sizeof(Value)},
                                   {sum.addend, sizeof(Result)},
                                   {sum.result, sizeof(Result)}});
    const auto of_width = [&]<int width>() {
      if (sum.second_values == nullptr) return body.template operator()<Value, Result, width, Values::one>();
      return body.template operator()<Value, Result, width, Values::two>();
    };
    return wide ? of_width.template operator()<most>() : of_width.template operator()<1>();
  };
  if (sum.value_type == FloatType::bfloat16) return of_types(device::Bfloat16(), device::Bfloat16());
  with_type(sum.result_type, [&](auto result) { of_types(float(), result); });
}

}  // namespace tessera::moe::cuda

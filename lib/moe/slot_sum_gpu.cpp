#include "moe/slot_sum_gpu.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>

#include <limits>

#include "moe/cuda/kernels.h"
#include "moe/float_type_gpu.h"

namespace tessera::moe::gpu {

SlotsByRow slots_by_row(const at::Tensor& row, std::int64_t rows) {
  base::expect(rows < std::numeric_limits<std::int32_t>::max(), "slots_by_row: {} rows", rows);
  // As int32, which halves the digits to sort.
  const auto [sorted, slot] = at::sort(row.to(at::kInt), /*stable=*/true, 0, /*descending=*/false);
  return {slot, at::searchsorted(sorted, at::arange(rows + 1, sorted.options()))};
}

at::Tensor sum_slots(const at::Tensor& values, const SlotsByRow& slots, at::ScalarType type,
                     const at::Tensor& second_values, const at::Tensor& addend) {
  const auto rows = slots.first.numel() - 1, columns = values.size(1);
  base::expect(values.dim() == 2 && values.size(0) == slots.slot.numel() &&
                   (values.scalar_type() == type || values.scalar_type() == at::kFloat),
               "sum_slots: not a value for each slot, of the result's type or float32");
  base::expect(!second_values.defined() ||
                   (second_values.sizes() == values.sizes() && second_values.scalar_type() == values.scalar_type()),
               "sum_slots: the second values are not like the first");
  base::expect(
      !addend.defined() || (addend.sizes() == at::IntArrayRef({rows, columns}) && addend.scalar_type() == type),
      "sum_slots: the addend is not like the result");
  const auto x = values.contiguous();
  const auto second = second_values.defined() ? second_values.contiguous() : at::Tensor();
  const auto start = addend.defined() ? addend.contiguous() : at::Tensor();
  auto result = at::empty({rows, columns}, x.options().dtype(type).requires_grad(false));
  cuda::launch(cuda::SlotSum{.value_type = float_type(x.scalar_type()),
                             .result_type = float_type(type),
                             .rows = rows,
                             .columns = columns,
                             .values = x.const_data_ptr(),
                             .second_values = second.defined() ? second.const_data_ptr() : nullptr,
                             .slot = slots.slot.const_data_ptr<std::int64_t>(),
                             .first = slots.first.const_data_ptr<std::int64_t>(),
                             .addend = start.defined() ? start.const_data_ptr() : nullptr,
                             .result = result.mutable_data_ptr()});
  return result;
}

}  // namespace tessera::moe::gpu

#include "ops/rows.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIndexing.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/error.h"
#include "ops/float_types.h"
#include "ops/simd.h"
#include "ops/wide_type.h"

namespace tessera::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t columns_per_task = 64;

// Every task adds its columns of all rows, in index order: the sum does not depend on the number of tasks.
template <class To, class From>
void add_rows_in_order(To* sum, std::int64_t sum_stride, const std::int64_t* index, const From* rows,
                       std::int64_t row_stride, std::int64_t count, std::int64_t columns) {
  at::parallel_for(0, columns, columns_per_task, [&](std::int64_t begin, std::int64_t end) {
    simd::run([&]() __attribute__((always_inline)) {
      for (std::int64_t i = 0; i < count; ++i) {
        To* to = sum + index[i] * sum_stride;
        const From* from = rows + i * row_stride;
#pragma omp simd
        for (std::int64_t c = begin; c < end; ++c) to[c] += static_cast<To>(from[c]);
      }
    });
  });
}

void check_index(const at::Tensor& index, std::int64_t n) {
  const auto* values = index.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < index.numel(); ++i)
    base::expect(values[i] >= 0 && values[i] < n, "row {} of {} rows is asked for", values[i], n);
}

struct TakeRows : Function<TakeRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows, const at::Tensor& index) {
    context->save_for_backward({index});
    context->saved_data["rows"] = rows.size(0);
    return at::index_select(rows, 0, index);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& gradient = gradients[0];
    auto sum = at::zeros({context->saved_data["rows"].toInt(), gradient.size(1)},
                         gradient.options().dtype(wide_type(gradient.scalar_type())));
    add_rows(sum, context->get_saved_variables()[0], gradient);
    return {sum.to(gradient.scalar_type()), {}};
  }
};

}  // namespace

at::Tensor take_rows(const at::Tensor& rows, const at::Tensor& index) { return TakeRows::apply(rows, index); }

void add_rows(const at::Tensor& sum, const at::Tensor& index, const at::Tensor& rows) {
  base::expect(sum.dim() == 2 && rows.dim() == 2 && sum.size(1) == rows.size(1) && index.numel() == rows.size(0),
               "add_rows: sum [n, hidden], index [m] and rows [m, hidden] do not fit");
  base::expect(index.is_contiguous(), "add_rows: the index is not contiguous");
  if (rows.numel() == 0) return;
  if (!sum.is_cpu()) {
    at::Tensor target = sum;
    // Also in index order: this kernel sorts before it adds, while index_add_ adds by atomics in any order.
    target.index_put_({index}, rows.to(sum.scalar_type()), /*accumulate=*/true);
    return;
  }
  check_index(index, sum.size(0));
  const auto source = rows.stride(1) == 1 ? rows : rows.contiguous();
  base::expect(sum.stride(1) == 1, "add_rows: rows of the sum are not contiguous");
  with_wide_type(sum.scalar_type(), [&]<class To>() {
    with_float_type(source.scalar_type(), [&]<class From>() {
      add_rows_in_order(sum.mutable_data_ptr<To>(), sum.stride(0), index.const_data_ptr<std::int64_t>(),
                        source.const_data_ptr<From>(), source.stride(0), source.size(0), source.size(1));
    });
  });
}

}  // namespace tessera::ops

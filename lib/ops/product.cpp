#include "ops/product.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zero.h>

#include <algorithm>
#include <cstdint>

#include "ops/wide_type.h"

namespace tessera::ops {
namespace {

constexpr std::int64_t widened_elements = std::int64_t{1} << 18;  // of a matrix at once: 1 MiB of float32

bool is_narrow(const at::Tensor& tensor) { return tensor.scalar_type() != wide_type(tensor.scalar_type()); }

at::Tensor widen(const at::Tensor& tensor) { return tensor.to(wide_type(tensor.scalar_type())); }

// Calls body(first, widened rows of `matrix` from `first` on) for each block of rows.
template <class Body>
void for_widened_blocks(const at::Tensor& matrix, Body body) {
  const auto outer = matrix.size(0);
  const auto step = std::max<std::int64_t>(16, widened_elements / std::max<std::int64_t>(1, matrix.size(1)));
  for (std::int64_t first = 0; first < outer; first += step)
    body(first, widen(matrix.narrow(0, first, std::min(step, outer - first))));
}

// out = a * b, or out + a * b, on a GPU: `out` may be wider than the operands.
void multiply_on_gpu(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, Into into) {
  const auto type = is_narrow(a) ? a.scalar_type() : b.scalar_type();
  const auto left = a.to(type), right = b.to(type);
  at::Tensor result = out;
  if (a.size(1) == 0 || result.numel() == 0) {  // nothing to multiply, which kernels that widen may refuse
    if (into == Into::overwrite) result.zero_();
    return;
  }
  const bool widens = result.scalar_type() != type;
  if (into == Into::overwrite) {
    widens ? at::mm_out(result, left, right, result.scalar_type()) : at::mm_out(result, left, right);
  } else {
    widens ? at::addmm_outf(result, left, right, result.scalar_type(), 1, 1, result) : result.addmm_(left, right);
  }
}

}  // namespace

void product_into(const at::Tensor& result, const at::Tensor& rows, const at::Tensor& matrix) {
  if (!result.is_cpu()) return multiply_on_gpu(result, rows, matrix.t(), Into::overwrite);
  at::Tensor out = result;
  if (!is_narrow(matrix) && !is_narrow(rows) && result.scalar_type() == matrix.scalar_type()) {
    at::mm_out(out, rows, matrix.t());
    return;
  }
  const auto wide_rows = widen(rows);
  for_widened_blocks(matrix, [&](std::int64_t first, const at::Tensor& block) {
    out.narrow(1, first, block.size(0)).copy_(at::mm(wide_rows, block.t()));
  });
}

void multiply_back_out(const at::Tensor& result, const at::Tensor& d, const at::Tensor& matrix, Into into) {
  if (!result.is_cpu()) return multiply_on_gpu(result, d, matrix, into);
  at::Tensor out = result;
  if (!is_narrow(matrix) && !is_narrow(d)) {
    if (into == Into::overwrite) {
      at::mm_out(out, d, matrix);
    } else {
      out.addmm_(d, matrix);
    }
    return;
  }
  if (into == Into::overwrite) out.zero_();
  const auto wide_d = widen(d);
  for_widened_blocks(matrix, [&](std::int64_t first, const at::Tensor& block) {
    out.addmm_(wide_d.narrow(1, first, block.size(0)), block);
  });
}

void add_outer_product(const at::Tensor& gradient, const at::Tensor& d, const at::Tensor& rows) {
  if (!gradient.is_cpu()) return multiply_on_gpu(gradient, d.t(), rows, Into::add);
  at::Tensor sum = gradient;
  sum.addmm_(d.to(gradient.scalar_type()).t(), rows.to(gradient.scalar_type()));
}

}  // namespace tessera::ops

// Operations that LibTorch has kernels for on CUDA alone, by their formulas, with CUDA's conditions.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/GroupedMMUtils.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rsqrt.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>

#include "support/torch_double/alias.h"
#include "support/torch_double/determinism.h"
#include "support/torch_double/fallback.h"
#include "support/torch_double/synchronisation.h"
#include "support/torch_double/torch_double.h"

namespace tessera::test::torch_double {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor or_none(const OptionalTensor& tensor) { return tensor.value_or(Tensor()); }

// ---- Products with a result wider than their operands ----

void check_wide_product(const Tensor& a, const Tensor& b, at::ScalarType type, const Tensor& out) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "mm: sizes ", a.sizes(), " and ", b.sizes(),
              " do not fit");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "mm: operands of ", a.scalar_type(), " and ", b.scalar_type());
  const bool narrow = a.scalar_type() == at::kBFloat16 || a.scalar_type() == at::kHalf;
  TORCH_CHECK(type == a.scalar_type() || (type == at::kFloat && narrow), "mm: a result of ", type, " of ",
              a.scalar_type(), " operands");
  TORCH_CHECK(out.scalar_type() == type && out.sizes() == at::IntArrayRef({a.size(0), b.size(1)}),
              "mm: the output does not have the result's type and sizes");
}

Tensor& wide_mm_out(const Tensor& a, const Tensor& b, at::ScalarType type, Tensor& out) {
  require_one_place("aten::mm", {a, b, out});
  check_wide_product(a, b, type, out);
  require_deterministic("aten::mm", {});
  count_launch("aten::mm");
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  AliasScope scope("aten::mm", AliasScope::Use::bytes);
  auto to = scope.written(out);
  at::mm_out(to, scope.of(a).to(type), scope.of(b).to(type));
  return out;
}

Tensor wide_mm(const Tensor& a, const Tensor& b, at::ScalarType type) {
  auto out = at::empty({a.size(0), b.size(-1)}, a.options().dtype(type));
  return wide_mm_out(a, b, type, out);
}

Tensor& wide_addmm_out(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType type,
                       const at::Scalar& beta, const at::Scalar& alpha, Tensor& out) {
  require_one_place("aten::addmm", {self, a, b, out});
  check_wide_product(a, b, type, out);
  TORCH_CHECK(self.scalar_type() == type || self.scalar_type() == a.scalar_type(), "addmm: adds to ",
              self.scalar_type());
  require_deterministic("aten::addmm", {});
  count_launch("aten::addmm");
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  AliasScope scope("aten::addmm", AliasScope::Use::bytes);
  auto to = scope.written(out);
  at::addmm_out(to, scope.of(self).to(type), scope.of(a).to(type), scope.of(b).to(type), beta, alpha);
  return out;
}

Tensor wide_addmm(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType type, const at::Scalar& beta,
                  const at::Scalar& alpha) {
  auto out = at::empty({a.size(0), b.size(-1)}, a.options().dtype(type));
  return wide_addmm_out(self, a, b, type, beta, alpha, out);
}

// ---- Grouped products ----

// Group g covers [end of g - 1, end of g) of what is grouped.
template <class Product>
void for_groups(const Tensor& ends, std::int64_t length, const Product& product) {
  const auto* end = ends.const_data_ptr<std::int32_t>();
  std::int64_t first = 0;
  for (std::int64_t g = 0; g < ends.numel(); ++g) {
    TORCH_CHECK(end[g] >= first && end[g] <= length, "_grouped_mm: the ends do not ascend to at most ", length);
    product(g, first, end[g] - first);
    first = end[g];
  }
}

// CUDA's kernel, for bfloat16, reads each group's matrix from an address that is a multiple of 16 bytes: where the
// elements along the grouped dim lie next to each other, all groups but the last must have a multiple of 8.
void check_group_sizes(const Tensor& ends, std::int64_t length, const Tensor& operand, std::int64_t dim) {
  if (operand.stride(dim) != 1) return;
  constexpr std::int64_t alignment = 8;
  for_groups(ends, length, [&](std::int64_t g, std::int64_t, std::int64_t count) {
    TORCH_CHECK(count % alignment == 0 || g + 1 == ends.numel(), "_grouped_mm: group ", g, " has ", count,
                " elements along a dim whose stride is 1; the byte size must be a multiple of 16");
  });
}

void multiply_into(const Tensor& out, const Tensor& a, const Tensor& b) {
  out.copy_(at::mm(a.to(at::kFloat), b.to(at::kFloat)));
}

// For bfloat16 LibTorch has a kernel (on GPUs of the architectures 90 and 100); for others it loops over the groups on
// the host. The kernel does not write rows behind the last group, and what it writes for a group of an empty inner dim
// is not defined on every GPU (pytorch issue 172439): both stay as they were allocated.
enum class GroupedBy { kernel, loop };

Tensor grouped_mm(const Tensor& a, const Tensor& b, const OptionalTensor& ends, const OptionalTensor& bias,
                  std::optional<at::ScalarType> type) {
  require_one_place("aten::_grouped_mm", {a, b, or_none(ends), or_none(bias)});
  at::native::_grouped_mm_validate_inputs(a, b, ends, bias, type);
  TORCH_CHECK(a.dim() == 2, "the torch double has _grouped_mm with a first operand of two dims only");
  TORCH_CHECK(ends->numel() < 1024, "_grouped_mm: ", ends->numel(), " groups, of which it takes 1023 at most");
  const auto out_type = at::native::_resolve_grouped_mm_out_dtype(a, b, type);
  const auto out = at::native::create_grouped_gemm_output_tensor(a, b, ends, out_type);
  const bool narrow = a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16;
  const auto by = narrow ? GroupedBy::kernel : GroupedBy::loop;
  count_launch("aten::_grouped_mm");
  if (by == GroupedBy::loop) count_synchronisation("aten::_grouped_mm");
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  AliasScope scope("aten::_grouped_mm", AliasScope::Use::bytes);
  const auto left = scope.of(a), right = scope.of(b), to = scope.written(out), end = scope.of(*ends).contiguous();
  const bool along_rows = b.dim() == 3;
  if (by == GroupedBy::kernel) {
    check_group_sizes(end, a.size(along_rows ? 0 : 1), left, along_rows ? 0 : 1);
    if (!along_rows) check_group_sizes(end, a.size(1), right, 0);
  }
  for_groups(end, a.size(along_rows ? 0 : 1), [&](std::int64_t g, std::int64_t first, std::int64_t count) {
    if (along_rows) {
      multiply_into(to.narrow(0, first, count), left.narrow(0, first, count), right.select(0, g));
    } else if (count > 0 || by == GroupedBy::loop) {
      multiply_into(to.select(0, g), left.narrow(1, first, count), right.narrow(0, first, count));
    }
  });
  return out;
}

// ---- RMS norm ----

// A tensor as [rows, elements that are normalised together].
struct NormShape {
  std::int64_t rows, length;
  std::vector<std::int64_t> statistics;  // sizes of the reciprocal root: the normalised dims are 1
};

NormShape norm_shape(const Tensor& input, at::IntArrayRef normalised) {
  const auto dims = input.dim() - static_cast<std::int64_t>(normalised.size());
  TORCH_CHECK(dims >= 0 && input.sizes().slice(static_cast<std::size_t>(dims)) == normalised,
              "_fused_rms_norm: ", normalised, " are not the last dims of ", input.sizes());
  const auto length = std::accumulate(normalised.begin(), normalised.end(), std::int64_t{1}, std::multiplies<>());
  NormShape shape{length == 0 ? 0 : input.numel() / length, length, input.sizes().vec()};
  std::fill(shape.statistics.begin() + dims, shape.statistics.end(), 1);
  return shape;
}

at::ScalarType wide_type(const Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void check_norm(const Tensor& input, const Tensor& weight, at::IntArrayRef normalised) {
  if (!weight.defined()) return;
  TORCH_CHECK(weight.scalar_type() == input.scalar_type() && weight.sizes() == normalised,
              "_fused_rms_norm: a weight of ", weight.scalar_type(), weight.sizes(), " for an input of ",
              input.scalar_type(), input.sizes());
}

std::tuple<Tensor, Tensor> rms_norm(const Tensor& input, at::IntArrayRef normalised, const OptionalTensor& gain,
                                    std::optional<double> epsilon) {
  const auto weight = or_none(gain);
  require_one_place("aten::_fused_rms_norm", {input, weight});
  check_norm(input, weight, normalised);
  const auto shape = norm_shape(input, normalised);
  const auto type = wide_type(input);
  const auto least = type == at::kDouble ? std::numeric_limits<double>::epsilon()
                                         : static_cast<double>(std::numeric_limits<float>::epsilon());
  const auto out = at::empty(input.sizes(), input.options()),
             root = at::empty(shape.statistics, input.options().dtype(type));
  count_launch("aten::_fused_rms_norm");
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  AliasScope scope("aten::_fused_rms_norm", AliasScope::Use::bytes);
  const auto x = scope.of(input).reshape({shape.rows, shape.length}).to(type);
  const auto r = at::rsqrt(x.mul(x).mean(1, true).add(epsilon.value_or(least)));
  auto y = x.mul(r);
  if (weight.defined()) y.mul_(scope.of(weight).reshape({1, shape.length}).to(type));
  scope.written(out).view({shape.rows, shape.length}).copy_(y);
  scope.written(root).view({shape.rows, 1}).copy_(r);
  return {out, root};
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& d_out, const Tensor& input, at::IntArrayRef normalised,
                                             const Tensor& root, const OptionalTensor& gain,
                                             std::array<bool, 2> wanted) {
  const auto weight = or_none(gain);
  require_one_place("aten::_fused_rms_norm_backward", {d_out, input, root, weight});
  check_norm(input, weight, normalised);
  const auto shape = norm_shape(input, normalised);
  const auto type = wide_type(input);
  TORCH_CHECK(d_out.scalar_type() == input.scalar_type() && d_out.sizes() == input.sizes() &&
                  root.scalar_type() == type && root.numel() == shape.rows,
              "_fused_rms_norm_backward: the gradient is not like the input, or the root is not the forward's");
  count_launch("aten::_fused_rms_norm_backward");
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  AliasScope scope("aten::_fused_rms_norm_backward", AliasScope::Use::bytes);
  const auto rows = [&](const Tensor& tensor) { return scope.of(tensor).reshape({shape.rows, shape.length}).to(type); };
  const auto r = scope.of(root).reshape({shape.rows, 1}), normed = rows(input).mul(r), d = rows(d_out);
  Tensor d_input, d_weight;
  if (wanted[0]) {
    const auto d_normed = weight.defined() ? d.mul(scope.of(weight).reshape({1, shape.length}).to(type)) : d;
    const auto along = d_normed.mul(normed).mean(1, true);
    d_input = at::empty(input.sizes(), input.options());
    scope.written(d_input).view({shape.rows, shape.length}).copy_(d_normed.sub(normed.mul(along)).mul(r));
  }
  if (wanted[1] && weight.defined()) {
    d_weight = at::empty(weight.sizes(), weight.options());
    scope.written(d_weight).view({shape.length}).copy_(d.mul(normed).sum(0));
  }
  return {d_input, d_weight};
}

// ---- Optimizers ----

// CUDA's kernel reads the steps as float32 on the device, whatever their type is.
void fused_adamw(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  constexpr std::size_t state_steps = 5;
  const auto first = stack->size() - op.schema().arguments().size();
  for (const at::Tensor& step : (*stack)[first + state_steps].toTensorVector())
    TORCH_CHECK(step.scalar_type() == at::kFloat && step.is_privateuseone(),
                "_fused_adamw_: state_steps are not float32 on the device");
  run_on_host(op, stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("mm.dtype", &wide_mm);
  library.impl("mm.dtype_out", &wide_mm_out);
  library.impl("addmm.dtype", &wide_addmm);
  library.impl("addmm.dtype_out", &wide_addmm_out);
  library.impl("_grouped_mm", &grouped_mm);
  library.impl("_fused_rms_norm", &rms_norm);
  library.impl("_fused_rms_norm_backward", &rms_norm_backward);
  library.impl("_fused_adamw_", torch::CppFunction::makeFromBoxedFunction<&fused_adamw>());
}

}  // namespace tessera::test::torch_double

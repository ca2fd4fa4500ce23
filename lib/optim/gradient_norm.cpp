#include "optim/gradient_norm.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace tessera::optim {
namespace {

// Elements per partial sum: fixed, so that the number of threads does not change the order of additions.
constexpr std::int64_t chunk_elements = 1 << 15;
// Elements that a GPU scales at a time: 32 MiB in float64.
constexpr std::int64_t scaled_elements = 1 << 22;

// Returns the maximum, or NaN if either value is NaN.
double maximum(double a, double b) { return std::isnan(a) || a > b ? a : b; }

// Adds in eight independent sums, since in a single one each addition would wait for the one before.
template <class T, class Power>
double sum_of(const T* data, std::int64_t count, Power power) {
  std::array<double, 8> lanes{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (std::size_t lane = 0; lane < 8; ++lane)
      lanes[lane] += power(static_cast<double>(data[i + static_cast<std::int64_t>(lane)]));
  for (; i < count; ++i) lanes[0] += power(static_cast<double>(data[i]));
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <class T>
double part_of_chunk(const T* data, std::int64_t count, double norm_type, double scale) {
  if (std::isinf(norm_type)) {
    double largest = 0;
    for (std::int64_t i = 0; i < count; ++i) largest = maximum(std::abs(static_cast<double>(data[i])), largest);
    return largest;
  }
  if (norm_type == 2.0) return sum_of(data, count, [](double x) { return x * x; });
  if (norm_type == 1.0) return sum_of(data, count, [](double x) { return std::abs(x); });
  return sum_of(data, count, [=](double x) { return std::pow(std::abs(x) / scale, norm_type); });
}

double combine(double a, double b, Combination rule) { return rule == Combination::sum ? a + b : maximum(a, b); }

template <class T>
double part_of(const T* data, std::int64_t count, double norm_type, double scale) {
  const std::int64_t chunks = (count + chunk_elements - 1) / chunk_elements;
  std::vector<double> parts(static_cast<std::size_t>(chunks));
  at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t first = c * chunk_elements;
      parts[static_cast<std::size_t>(c)] =
          part_of_chunk(data + first, std::min(chunk_elements, count - first), norm_type, scale);
    }
  });
  double total = 0;
  for (const double part : parts) total = combine(total, part, combination_of(norm_type));
  return total;
}

}  // namespace

Combination combination_of(double norm_type) {
  base::expect(norm_type > 0, "a norm of type {} is not defined", norm_type);
  return std::isinf(norm_type) ? Combination::maximum : Combination::sum;
}

bool is_scaled(double norm_type) { return norm_type != 1.0 && norm_type != 2.0 && !std::isinf(norm_type); }

namespace {

// Returns whether the scale cannot divide: its group's gradient is zero or not finite.
bool is_the_part(double scale) { return scale == 0 || !std::isfinite(scale); }

double part_on_cpu(const at::Tensor& gradient, double norm_type, double scale) {
  if (is_the_part(scale)) return scale;
  switch (gradient.scalar_type()) {
    case at::kFloat: return part_of(gradient.const_data_ptr<float>(), gradient.numel(), norm_type, scale);
    case at::kDouble: return part_of(gradient.const_data_ptr<double>(), gradient.numel(), norm_type, scale);
    default: base::expect(false, "gradients are float32 or float64, not {}", c10::toString(gradient.scalar_type()));
  }
  return 0;
}

// Returns a [] float64 tensor on the gradient's device.
at::Tensor part_on_gpu(const at::Tensor& gradient, double norm_type, double scale) {
  const auto number = gradient.options().dtype(at::kDouble);
  if (is_the_part(scale)) return at::full({}, scale, number);
  auto sum = at::zeros({}, number);
  if (gradient.numel() == 0) return sum;
  if (!is_scaled(norm_type)) {
    auto norm = at::linalg_vector_norm(gradient, norm_type, std::nullopt, false, at::kDouble);
    return combination_of(norm_type) == Combination::maximum ? norm : norm.pow(norm_type);
  }
  const auto flat = gradient.view({-1});
  for (std::int64_t first = 0; first < flat.numel(); first += scaled_elements) {
    auto scaled = flat.narrow(0, first, std::min(scaled_elements, flat.numel() - first)).to(at::kDouble).div(scale);
    sum.add_(scaled.abs_().pow_(norm_type).sum());
  }
  return sum;
}

// Returns the part of each gradient; blocks the host once for all gradients on a GPU.
std::vector<double> parts_of(std::span<const GroupedGradient> gradients, double norm_type,
                             std::span<const double> scales) {
  std::vector<double> parts;
  std::vector<at::Tensor> on_gpu;
  for (const auto& entry : gradients) {
    base::expect(entry.gradient->is_contiguous(), "norm_parts reads contiguous memory");
    const double scale = scales.empty() ? 1.0 : scales[entry.group];
    if (entry.gradient->is_cpu())
      parts.push_back(part_on_cpu(*entry.gradient, norm_type, scale));
    else
      on_gpu.push_back(part_on_gpu(*entry.gradient, norm_type, scale));
  }
  if (on_gpu.empty()) return parts;
  const auto known = at::stack(on_gpu).cpu();
  parts.assign(known.const_data_ptr<double>(), known.const_data_ptr<double>() + known.numel());
  return parts;
}

void expect_scales(std::size_t groups, double norm_type, std::span<const double> scales) {
  base::expect(scales.size() == (is_scaled(norm_type) ? groups : 0), "{} scales for {} groups of a norm of type {}",
               scales.size(), groups, norm_type);
}

}  // namespace

double norm_part(const at::Tensor& gradient, double norm_type) {
  expect_scales(1, norm_type, {});
  const GroupedGradient one{&gradient, 0};
  return parts_of({&one, 1}, norm_type, {}).front();
}

std::vector<double> norm_parts(std::span<const GroupedGradient> gradients, std::size_t groups, double norm_type,
                               std::span<const double> scales) {
  expect_scales(groups, norm_type, scales);
  std::vector<double> parts(groups, 0.0);
  const auto known = parts_of(gradients, norm_type, scales);
  for (std::size_t k = 0; k < known.size(); ++k) {
    auto& part = parts.at(gradients[k].group);
    part = combine(part, known[k], combination_of(norm_type));
  }
  return parts;
}

GradientNorms finish_norms(std::span<const double> parts, double norm_type, std::span<const double> scales) {
  expect_scales(parts.size(), norm_type, scales);
  const Combination rule = combination_of(norm_type);
  const auto root = [&](double part, double scale) {
    if (rule == Combination::maximum || norm_type == 1.0) return part;
    if (norm_type == 2.0) return std::sqrt(part);
    return is_the_part(scale) ? scale : scale * std::pow(part, 1.0 / norm_type);
  };
  double largest = 0;
  for (const double scale : scales) largest = maximum(scale, largest);
  GradientNorms norms;
  double total = 0;
  for (std::size_t g = 0; g < parts.size(); ++g) {
    const double scale = scales.empty() ? 1.0 : scales[g];
    norms.groups.push_back(root(parts[g], scale));
    const double of_largest = scales.empty() ? 1.0 : std::pow(scale / largest, norm_type);
    total = combine(total, parts[g] * of_largest, rule);
  }
  norms.total = root(total, largest);
  return norms;
}

double clip_factor(double norm, double max_norm) {
  base::expect(max_norm >= 0, "a clip limit of {} passed the check of settings", max_norm);
  if (!std::isfinite(norm)) return std::numeric_limits<double>::quiet_NaN();
  if (max_norm == 0) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace tessera::optim

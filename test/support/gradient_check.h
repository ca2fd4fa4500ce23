// Test tensors, Weights that own their memory, and a check of gradients by central differences in float64.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "device/weight.h"
#include "support/catch.h"

namespace tessera::test {

// Returns values in (-1, 1) that depend only on `seed` and the element; computed in float64, so that a narrower type
// holds the rounded ones.
inline at::Tensor varied(at::IntArrayRef shape, std::int64_t seed, at::ScalarType type = at::kDouble) {
  const auto n = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const auto k = at::arange(n, at::TensorOptions(at::kDouble));
  return at::sin(k.mul(1.6180339887).add(static_cast<double>(seed) * 2.7182818).add(k.mul(k).mul(0.618)))
      .view(shape)
      .to(type);
}

inline at::Tensor integers(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::TensorOptions(at::kLong));
}

// Returns the largest absolute difference; infinite if a difference is not finite.
inline double distance(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  if (a.numel() == 0) return 0;
  const auto difference = a.detach().to(at::kDouble).sub(b.detach().to(at::kDouble)).abs().max().item<double>();
  return std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
}

// Returns the root mean square of the difference over that of `expected`, 0 if both are 0. Rounding to a type leaves
// less than the distance between two neighbours of the type: 2^-23 for float, 2^-8 for bfloat16.
inline double relative_distance(const at::Tensor& a, const at::Tensor& expected) {
  REQUIRE(a.sizes() == expected.sizes());
  const auto wide = expected.detach().to(at::kDouble);
  const auto difference = a.detach().to(at::kDouble).sub(wide).square().sum().item<double>();
  return difference == 0 ? 0 : std::sqrt(difference / wide.square().sum().item<double>());
}

// A Weight bound to memory that this object owns.
class BoundWeight {
 public:
  explicit BoundWeight(const at::Tensor& value)
      : BoundWeight(value, value.scalar_type() == at::kDouble ? at::kDouble : at::kFloat) {}
  BoundWeight(const at::Tensor& value, at::ScalarType master)
      : value_(value.contiguous().clone()),
        gradient_(at::zeros(value.sizes(), at::TensorOptions(master))),
        weight_(value.sizes().vec(), value.scalar_type(), master) {
    weight_.bind_value(value_.data_ptr());
    weight_.bind_gradient(gradient_.data_ptr());
  }

  operator device::Weight&() { return weight_; }  // NOLINT: it is one
  [[nodiscard]] device::Weight* pointer() { return &weight_; }
  [[nodiscard]] const at::Tensor& value() const { return value_; }
  [[nodiscard]] const at::Tensor& gradient() const { return gradient_; }
  void zero_gradient() { gradient_.zero_(); }

  // Frees the memory and fills it with NaN, so that code that still reads it is found out.
  void free() {
    gathered_ = value_.clone();
    value_.fill_(std::numeric_limits<double>::quiet_NaN());
    weight_.bind_value(nullptr);
  }
  // Gathers the value again, at another address.
  void gather() {
    poisoned_.push_back(value_);
    value_ = gathered_;
    weight_.bind_value(value_.data_ptr());
  }

 private:
  at::Tensor value_, gradient_, gathered_;
  std::vector<at::Tensor> poisoned_;
  device::Weight weight_;
};

// Returns the sum of the elements times fixed varied factors: a scalar that depends on every element.
inline at::Tensor probe(const at::Tensor& result, std::int64_t seed = 77) {
  return result.mul(varied(result.sizes(), seed, result.scalar_type())).sum();
}

// Returns d loss / d at_value, element by element, by central differences. `loss` reads at_value, contiguous float64.
inline at::Tensor central_differences(const std::function<at::Tensor()>& loss, const at::Tensor& at_value) {
  const at::NoGradGuard no_graph;
  constexpr double step = 1e-5;
  auto result = at::zeros_like(at_value, at::TensorOptions(at::kDouble));
  auto* values = at_value.data_ptr<double>();
  for (std::int64_t i = 0; i < at_value.numel(); ++i) {
    const double kept = values[i];
    values[i] = kept + step;
    const double above = loss().item<double>();
    values[i] = kept - step;
    const double below = loss().item<double>();
    values[i] = kept;
    result.data_ptr<double>()[i] = (above - below) / (2 * step);
  }
  return result;
}

// Runs one backward of `loss` (float64) and compares the gradients of `inputs` (contiguous leaves, made to require a
// gradient) and those in the weights' buffers with central differences.
inline void check_gradients(const std::function<at::Tensor()>& loss, std::vector<at::Tensor> inputs,
                            const std::vector<BoundWeight*>& weights, double tolerance = 1e-8) {
  for (auto& input : inputs) {
    input.set_requires_grad(true);
    input.mutable_grad().reset();
  }
  for (auto* weight : weights) weight->zero_gradient();
  loss().backward();
  const auto compare = [&](const at::Tensor& gradient, const at::Tensor& value) {
    const auto expected = central_differences(loss, value);
    const double scale = expected.numel() == 0 ? 1 : std::max(1.0, expected.abs().max().item<double>());
    CHECK(distance(gradient, expected) < tolerance * scale);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    INFO("input " << i);
    REQUIRE(inputs[i].grad().defined());
    compare(inputs[i].grad(), inputs[i].detach());
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    INFO("weight " << i);
    const auto gradient = weights[i]->gradient().clone();
    compare(gradient, weights[i]->value());
  }
}

}  // namespace tessera::test

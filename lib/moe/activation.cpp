#include "moe/activation.h"

#include <ATen/Parallel.h>

#include <type_traits>

#include "moe/activation_gpu.h"
#include "moe/expert_function.h"
#include "ops/swiglu_kernels.h"

namespace tessera::moe {
namespace {

constexpr std::int64_t slots_per_task = 32;

// T is the type of gate and up, R that of their gradients.
template <class T, class R>
void differentiate(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& d,
                   const ActivationGradient& result) {
  using Wide = ops::wide_of<T>;
  const auto n = gate.size(1);
  const T *g = gate.const_data_ptr<T>(), *u = up.const_data_ptr<T>();
  const auto* w = weight.const_data_ptr<Wide>();
  const R* d_data = d.const_data_ptr<R>();
  R *d_g = result.d_gate.mutable_data_ptr<R>(), *d_u = result.d_up.mutable_data_ptr<R>(),
    *a = result.activation.mutable_data_ptr<R>();
  auto* d_w = result.d_weight.mutable_data_ptr<Wide>();
  at::parallel_for(0, gate.size(0), slots_per_task, [&](std::int64_t begin, std::int64_t end) {
    ops::simd::run([&]() __attribute__((always_inline)) {
      for (auto r = begin; r < end; ++r) {
        const auto at = r * n;
        d_w[r] = ops::swiglu_row_gradient(g + at, u + at, d_data + at, w[r], d_g + at, d_u + at, a + at, n);
      }
    });
  });
}

}  // namespace

void activate(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& activation) {
  if (!gate.is_cpu()) return gpu::activate(gate, up, weight, activation);
  const auto n = gate.size(1);
  ops::with_float_type(gate.scalar_type(), [&]<class T>() {
    const T *g = gate.const_data_ptr<T>(), *u = up.const_data_ptr<T>();
    const auto* w = weight.const_data_ptr<ops::wide_of<T>>();
    T* a = activation.mutable_data_ptr<T>();
    at::parallel_for(0, gate.size(0), slots_per_task, [&](std::int64_t begin, std::int64_t end) {
      ops::simd::run([&]() __attribute__((always_inline)) {
        for (auto r = begin; r < end; ++r) ops::swiglu_row(g + r * n, u + r * n, w[r], a + r * n, n);
      });
    });
  });
}

void activate_back(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& d,
                   const ActivationGradient& result) {
  if (!gate.is_cpu()) return gpu::activate_back(gate, up, weight, d, result);
  ops::with_float_type(gate.scalar_type(), [&]<class T>() {
    if (d.scalar_type() == gate.scalar_type()) return differentiate<T, T>(gate, up, weight, d, result);
    differentiate<T, ops::wide_of<T>>(gate, up, weight, d, result);
  });
}

const ExpertFunction& swiglu() {
  static constexpr ExpertFunction function{
      .name = "swiglu",
      .inputs = 2,
      .forward = [](std::span<const at::Tensor> inputs, const at::Tensor& weight,
                    const at::Tensor& activation) { activate(inputs[0], inputs[1], weight, activation); },
      .backward =
          [](std::span<const at::Tensor> inputs, const at::Tensor& weight, const at::Tensor& d,
             const FunctionGradient& result) {
            activate_back(inputs[0], inputs[1], weight, d,
                          {result.d_inputs[0], result.d_inputs[1], result.activation, result.d_weight});
          }};
  return function;
}

}  // namespace tessera::moe

#include "ops/swiglu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "ops/swiglu_gpu.h"
#include "ops/swiglu_kernels.h"

namespace tessera::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t grain = 16384;

struct SwiGlu : Function<SwiGlu> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate, const at::Tensor& up) {
    context->save_for_backward({gate, up});
    if (!gate.is_cpu()) return gpu::swiglu(gate, up);
    const auto g = gate.contiguous(), u = up.contiguous();
    auto result = at::empty_like(g);
    with_float_type(g.scalar_type(), [&]<class T>() {
      const T *gate_data = g.const_data_ptr<T>(), *up_data = u.const_data_ptr<T>();
      T* result_data = result.mutable_data_ptr<T>();
      at::parallel_for(0, g.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
        simd::run([&]() __attribute__((always_inline)) {
          swiglu_row(gate_data + begin, up_data + begin, wide_of<T>(1), result_data + begin, end - begin);
        });
      });
    });
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    if (!saved[0].is_cpu()) {
      auto result = gpu::swiglu_gradient(saved[0], saved[1], gradients[0]);
      return {std::move(result.d_gate), std::move(result.d_up)};
    }
    const auto g = saved[0].contiguous(), u = saved[1].contiguous(), d = gradients[0].contiguous();
    auto d_gate = at::empty_like(g), d_up = at::empty_like(u);
    with_float_type(g.scalar_type(), [&]<class T>() {
      const T *gate_data = g.const_data_ptr<T>(), *up_data = u.const_data_ptr<T>(), *d_data = d.const_data_ptr<T>();
      T *d_gate_data = d_gate.mutable_data_ptr<T>(), *d_up_data = d_up.mutable_data_ptr<T>();
      at::parallel_for(0, g.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
        std::vector<T> unused(static_cast<std::size_t>(std::min(grain, end - begin)));
        for (auto first = begin; first < end; first += grain) {
          simd::run([&]() __attribute__((always_inline)) {
            swiglu_row_gradient(gate_data + first, up_data + first, d_data + first, wide_of<T>(1), d_gate_data + first,
                                d_up_data + first, unused.data(), std::min(grain, end - first));
          });
        }
      });
    });
    return {d_gate, d_up};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  base::expect(gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type(),
               "swiglu: gate and up differ in shape or type");
  return SwiGlu::apply(gate, up);
}

}  // namespace tessera::ops

#include "moe/activation_gpu.h"

#include <initializer_list>

#include "moe/cuda/kernels.h"
#include "moe/float_type_gpu.h"

namespace tessera::moe::gpu {
namespace {

void expect_alike(const at::Tensor& gate, const at::Tensor& weight, std::initializer_list<at::Tensor> others) {
  base::expect(gate.dim() == 2 && gate.is_contiguous() && weight.numel() == gate.size(0) && weight.is_contiguous(),
               "SwiGLU: gate [slots, n] and weight [slots] do not fit");
  for (const auto& other : others)
    base::expect(other.sizes() == gate.sizes() && other.scalar_type() == gate.scalar_type() && other.is_contiguous(),
                 "SwiGLU: not all of one size and type, and contiguous");
}

}  // namespace

void activate(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& activation) {
  expect_alike(gate, weight, {up, activation});
  cuda::launch(cuda::WeightedSwiglu{.type = float_type(gate.scalar_type()),
                                    .slots = gate.size(0),
                                    .columns = gate.size(1),
                                    .gate = gate.const_data_ptr(),
                                    .up = up.const_data_ptr(),
                                    .weight = weight.const_data_ptr<float>(),
                                    .activation = activation.mutable_data_ptr()});
}

void activate_back(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& weight, const at::Tensor& d,
                   const ActivationGradient& result) {
  expect_alike(gate, weight, {up, d, result.d_gate, result.d_up, result.activation});
  base::expect(result.d_weight.numel() == gate.size(0), "SwiGLU: not a gradient for each weight");
  cuda::launch(cuda::WeightedSwigluGradient{.type = float_type(gate.scalar_type()),
                                            .slots = gate.size(0),
                                            .columns = gate.size(1),
                                            .gate = gate.const_data_ptr(),
                                            .up = up.const_data_ptr(),
                                            .weight = weight.const_data_ptr<float>(),
                                            .d = d.const_data_ptr(),
                                            .d_gate = result.d_gate.mutable_data_ptr(),
                                            .d_up = result.d_up.mutable_data_ptr(),
                                            .activation = result.activation.mutable_data_ptr(),
                                            .d_weight = result.d_weight.mutable_data_ptr<float>()});
}

}  // namespace tessera::moe::gpu

// SwiGLU times the slot weight, and its gradient, each in one pass; computes in float32 and rounds once. Compiles for
// the GPU and the CPU; formulas as in ops/swiglu_kernels.h.
#pragma once

#include <cmath>
#include <cstdint>

#include "moe/cuda/lanes.h"

namespace tessera::moe::cuda {

// activation = silu(gate) * up * weight. [slots, columns] of `type`, contiguous and aligned as their elements are;
// weight [slots].
struct WeightedSwiglu {
  FloatType type{};
  std::int64_t slots = 0, columns = 0;
  const void *gate = nullptr, *up = nullptr;
  const float* weight = nullptr;
  void* activation = nullptr;
};

// Given the gradient `d` of the activation: the gradients of gate, up and weight, and the activation again, which may
// take the memory of `d`.
struct WeightedSwigluGradient {
  FloatType type{};
  std::int64_t slots = 0, columns = 0;
  const void *gate = nullptr, *up = nullptr;
  const float* weight = nullptr;
  const void* d = nullptr;
  void *d_gate = nullptr, *d_up = nullptr, *activation = nullptr;
  float* d_weight = nullptr;  // [slots]
};

TESSERA_HOST_AND_GPU inline float sigmoid(float x) { return 1.F / (1.F + std::exp(-x)); }

// Computes the part of a slot's row that belongs to one lane.
template <class T, int width>
TESSERA_HOST_AND_GPU void activate(const WeightedSwiglu& swiglu, std::int64_t slot, int lane) {
  const float weight = swiglu.weight[slot];
  for (std::int64_t column = lane * width; column < swiglu.columns; column += lanes * width) {
    const auto place = slot * swiglu.columns + column;
    float gate[width], up[width], result[width];
    load<width>(static_cast<const T*>(swiglu.gate) + place, gate);
    load<width>(static_cast<const T*>(swiglu.up) + place, up);
    for (int k = 0; k < width; ++k) result[k] = gate[k] * sigmoid(gate[k]) * up[k] * weight;
    store<width>(result, static_cast<T*>(swiglu.activation) + place);
  }
}

// Likewise for the gradients; returns the lane's part of d_weight.
template <class T, int width>
TESSERA_HOST_AND_GPU float differentiate(const WeightedSwigluGradient& swiglu, std::int64_t slot, int lane) {
  const float weight = swiglu.weight[slot];
  float d_weight = 0;
  for (std::int64_t column = lane * width; column < swiglu.columns; column += lanes * width) {
    const auto place = slot * swiglu.columns + column;
    float gate[width], up[width], d[width], d_gate[width], d_up[width], activation[width];
    load<width>(static_cast<const T*>(swiglu.gate) + place, gate);
    load<width>(static_cast<const T*>(swiglu.up) + place, up);
    load<width>(static_cast<const T*>(swiglu.d) + place, d);
    for (int k = 0; k < width; ++k) {
      const float s = sigmoid(gate[k]), silu = gate[k] * s;
      d_weight += d[k] * silu * up[k];
      activation[k] = silu * up[k] * weight;
      d_gate[k] = d[k] * weight * up[k] * s * (1.F + gate[k] * (1.F - s));
      d_up[k] = d[k] * weight * silu;
    }
    store<width>(d_gate, static_cast<T*>(swiglu.d_gate) + place);
    store<width>(d_up, static_cast<T*>(swiglu.d_up) + place);
    store<width>(activation, static_cast<T*>(swiglu.activation) + place);
  }
  return d_weight;
}

// Calls body.template operator()<T, width>() with the arguments that fit `swiglu`.
template <class Body>
void with_variant(const WeightedSwiglu& swiglu, const Body& body) {
  with_type(swiglu.type, [&]<class T>(T) {
    constexpr int most = vector_width<T>;
    const bool wide = fit_vectors(swiglu.columns, most,
                                  {{swiglu.gate, sizeof(T)}, {swiglu.up, sizeof(T)}, {swiglu.activation, sizeof(T)}});
    return wide ? body.template operator()<T, most>() : body.template operator()<T, 1>();
  });
}
template <class Body>
void with_variant(const WeightedSwigluGradient& swiglu, const Body& body) {
  with_type(swiglu.type, [&]<class T>(T) {
    constexpr int most = vector_width<T>;
    const bool wide = fit_vectors(swiglu.columns, most,
                                  {{swiglu.gate, sizeof(T)},
                                   {swiglu.up, sizeof(T)},
                                   {swiglu.d, sizeof(T)},
                                   {swiglu.d_gate, sizeof(T)},
                                   {swiglu.d_up, sizeof(T)},
                                   {swiglu.activation, sizeof(T)}});
    return wide ? body.template operator()<T, most>() : body.template operator()<T, 1>();
  });
}

}  // namespace tessera::moe::cuda

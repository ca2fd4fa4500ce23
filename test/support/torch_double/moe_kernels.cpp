// Implements the launchers of moe/cuda/kernels.h: the same code for each lane, lane by lane, on the host's view of the
// memory.
#include "moe/cuda/kernels.h"

#include <array>
#include <type_traits>

#include "support/torch_double/backing.h"
#include "support/torch_double/synchronisation.h"
#include "support/torch_double/torch_double.h"

namespace tessera::moe::cuda {

namespace {

using test::torch_double::allocation_of;
using test::torch_double::before_access;

// What a kernel only reads is const, as far as its order goes all of the memory around it.
template <class T>
void to_host(T*& pointer) {
  if (pointer == nullptr) return;
  if constexpr (std::is_const_v<T>)
    before_access("a kernel of moe", {allocation_of(pointer)}, {});
  else
    before_access("a kernel of moe", {}, {allocation_of(pointer)});
  pointer = static_cast<T*>(test::torch_double::alias_of(pointer));
}

template <class Body>
void for_lanes(std::int64_t rows, const Body& body) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (int lane = 0; lane < lanes; ++lane) body(row, lane);
}

// In the order in which a warp's lanes exchange their parts.
float total_of(std::array<float, lanes> parts) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const auto before = parts;
    for (int lane = 0; lane < lanes; ++lane)
      parts[static_cast<std::size_t>(lane)] =
          before[static_cast<std::size_t>(lane)] + before[static_cast<std::size_t>(lane ^ distance)];
  }
  return parts.front();
}

}  // namespace

void launch(const SlotSum& on_device) {
  if (on_device.rows == 0) return;
  test::torch_double::count_launch("slot_sum");
  auto sum = on_device;
  to_host(sum.values);
  to_host(sum.second_values);
  to_host(sum.slot);
  to_host(sum.first);
  to_host(sum.addend);
  to_host(sum.result);
  with_variant(sum, [&]<class Value, class Result, int width, Values values>() {
    for_lanes(sum.rows, [&](std::int64_t row, int lane) { sum_slots<Value, Result, width, values>(sum, row, lane); });
  });
}

void launch(const WeightedSwiglu& on_device) {
  if (on_device.slots == 0) return;
  test::torch_double::count_launch("weighted_swiglu");
  auto swiglu = on_device;
  to_host(swiglu.gate);
  to_host(swiglu.up);
  to_host(swiglu.weight);
  to_host(swiglu.activation);
  with_variant(swiglu, [&]<class T, int width>() {
    for_lanes(swiglu.slots, [&](std::int64_t slot, int lane) { activate<T, width>(swiglu, slot, lane); });
  });
}

void launch(const WeightedSwigluGradient& on_device) {
  if (on_device.slots == 0) return;
  test::torch_double::count_launch("weighted_swiglu_gradient");
  auto swiglu = on_device;
  to_host(swiglu.gate);
  to_host(swiglu.up);
  to_host(swiglu.weight);
  to_host(swiglu.d);
  to_host(swiglu.d_gate);
  to_host(swiglu.d_up);
  to_host(swiglu.activation);
  to_host(swiglu.d_weight);
  with_variant(swiglu, [&]<class T, int width>() {
    std::array<float, lanes> parts{};
    for_lanes(swiglu.slots, [&](std::int64_t slot, int lane) {
      parts[static_cast<std::size_t>(lane)] = differentiate<T, width>(swiglu, slot, lane);
      if (lane == lanes - 1) swiglu.d_weight[slot] = total_of(parts);
    });
  });
}

}  // namespace tessera::moe::cuda
